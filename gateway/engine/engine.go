// Package engine is what a gateway asks of Temporal: gateway.Runs over a workflows.Client. A gateway of one's own is
// assembled from both:
//
//	g := gateway.New(bus, engine.New(workflows.NewClient(temporal)), directory, gateway.Options{})
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/gateway"
	"github.com/holdfast-dev/holdfast/workflows"
)

// Engine implements gateway.Runs. It is safe for concurrent use.
type Engine struct{ client *workflows.Client }

var _ gateway.Runs = (*Engine)(nil)

// New returns an engine on a client, which stays the caller's.
func New(c *workflows.Client) *Engine { return &Engine{client: c} }

// Start implements gateway.Runs.
func (e *Engine) Start(ctx context.Context, tenant, agent, taskQueue, digest string, input *agui.RunAgentInput) (bool, error) {
	started, err := e.client.Start(ctx, tenant, agent, taskQueue, digest, input)
	return started, refusal(err)
}

// Resume implements gateway.Runs. The answers are put down to by, whatever the input says.
func (e *Engine) Resume(ctx context.Context, tenant, digest string, input *agui.RunAgentInput, by string) (agui.RunID, error) {
	run, err := e.client.Resume(ctx, tenant, string(input.ThreadID), workflows.Resumption{
		RunID: input.RunID, Digest: digest, Input: input, Entries: input.Resume, By: workflows.Answerer{Principal: by, Via: "gateway"},
	})
	return run, refusal(err)
}

// Answer implements gateway.Runs. The answer is put down to by.
func (e *Engine) Answer(ctx context.Context, tenant, thread string, answer agui.ResumeEntry, by string) (agui.RunID, error) {
	run, err := e.client.Answer(ctx, tenant, thread, answer.InterruptID, answer, workflows.Answerer{Principal: by, Via: "inbox"})
	return run, refusal(err)
}

// Current implements gateway.Runs.
func (e *Engine) Current(ctx context.Context, tenant, thread string) (gateway.Execution, error) {
	x, err := e.client.Current(ctx, tenant, thread)
	return gateway.Execution(x), err
}

// Describe implements gateway.Runs.
func (e *Engine) Describe(ctx context.Context, tenant, thread string) (gateway.Thread, error) {
	s, err := e.client.Describe(ctx, tenant, thread)
	if err != nil {
		return gateway.Thread{}, err
	}
	t := gateway.Thread{
		Status: gateway.Status(s.Status), Agent: s.Agent, RunID: s.RunID, Interrupts: s.Interrupts, Since: s.Since, Messages: s.Messages, State: s.State,
	}
	if t.Ledger, err = encoded(s.Ledger); err != nil {
		return gateway.Thread{}, err
	}
	t.Remembered, err = encoded(s.Remembered)
	return t, err
}

// encoded is a list as it goes to clients.
func encoded[T any](list []T) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for _, v := range list {
		data, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", v, err)
		}
		out = append(out, data)
	}
	return out, nil
}

// Waiting implements gateway.Runs.
func (e *Engine) Waiting(ctx context.Context, q gateway.WaitingQuery) ([]gateway.WaitingThread, []byte, error) {
	list, next, err := e.client.Waiting(ctx, workflows.WaitingFilter{Tenant: q.Tenant, Agent: q.Agent, Before: q.Before, Limit: q.Limit, Page: q.Page})
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) && len(q.Page) > 0 {
		return nil, nil, fmt.Errorf("%w: %w", gateway.ErrPage, err)
	}
	if err != nil {
		return nil, nil, err
	}
	out := make([]gateway.WaitingThread, len(list))
	for i, t := range list {
		out[i] = gateway.WaitingThread(t)
	}
	return out, next, nil
}

// Cancel implements gateway.Runs.
func (e *Engine) Cancel(ctx context.Context, tenant, thread string) (bool, error) {
	return e.client.Cancel(ctx, tenant, thread)
}

// Ready implements gateway.Runs.
func (e *Engine) Ready(ctx context.Context) error { return e.client.Ready(ctx) }

// refusal is a refused answer as the gateway knows it.
func refusal(err error) error {
	refused, ok := errors.AsType[*workflows.AnswerError](err)
	if !ok {
		return err
	}
	return &gateway.Refusal{Code: refused.Code, Message: refused.Message, Field: pointer(refused.Field)}
}

// pointer is a path such as resume[0].payload as a JSON Pointer.
func pointer(path string) string {
	if path == "" {
		return ""
	}
	return "/" + strings.NewReplacer("[", "/", "].", "/", "]", "", ".", "/").Replace(path)
}
