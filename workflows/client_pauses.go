package workflows

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
)

const (
	// resumeTimeout bounds an answer: the time that a worker needs to come back from a restart.
	resumeTimeout = 10 * time.Second
	// resumeAgain is how long the client waits for an execution that is between two workflow runs.
	resumeAgain = 20 * time.Millisecond

	maxWaitingPage = 100
)

// Resume answers interrupts of a thread, and returns the run in which the answers count: r's own, or the run that the same
// answers have opened before. It blocks until a worker has judged them, at the longest resumeTimeout. An *[AnswerError]
// says why they were refused.
//
// It may be called again, also by another gateway: the same answers have one effect.
func (c *Client) Resume(ctx context.Context, tenant, thread string, r Resumption) (agui.RunID, error) {
	if r.By.Via == "" {
		r.By.Via = "gateway"
	}
	out, err := c.resume(ctx, tenant, thread, r)
	return out.RunID, err
}

// Answer answers one interrupt for somebody who does not follow the run. The answer is kept; the last one that was missing
// has the run go on, under the id that is returned then.
func (c *Client) Answer(ctx context.Context, tenant, thread string, interrupt agui.InterruptID, e agui.ResumeEntry, by Answerer) (agui.RunID, error) {
	if by.Via == "" {
		by.Via = "inbox"
	}
	e.InterruptID = interrupt
	out, err := c.resume(ctx, tenant, thread, Resumption{Entries: []agui.ResumeEntry{e}, By: by})
	return out.RunID, err
}

func (c *Client) resume(ctx context.Context, tenant, thread string, r Resumption) (Resumed, error) {
	if r.Input != nil {
		r.Input = brief(r.Input)
	}
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	for {
		out, err := c.update(ctx, subject.WorkflowID(tenant, thread), r)
		if err == nil {
			return out, nil
		}
		if refused := answerError(err); refused != nil {
			return Resumed{}, refused
		}
		var missing *serviceerror.NotFound
		if errors.As(err, &missing) {
			out, closed, err := c.late(ctx, tenant, thread, r)
			if closed {
				return out, err
			}
		} else if !passing(err) {
			return Resumed{}, fmt.Errorf("resume run: %w", err)
		}
		select {
		case <-ctx.Done():
			return Resumed{}, fmt.Errorf("resume run: %w: %w", context.Cause(ctx), err)
		case <-time.After(resumeAgain):
		}
	}
}

// brief is what of an input a run that goes on makes use of. The conversation up to here is the run's own.
func brief(in *agui.RunAgentInput) *agui.RunAgentInput {
	short := *in
	short.Messages = slices.DeleteFunc(slices.Clone(in.Messages), func(m agui.Message) bool {
		return m.Role != agui.RoleUser && m.Role != agui.RoleTool
	})
	return &short
}

func (c *Client) update(ctx context.Context, id string, r Resumption) (out Resumed, err error) {
	h, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		UpdateID: r.id(), WorkflowID: id, UpdateName: resumeName, Args: []any{r}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return out, err
	}
	return out, h.Get(ctx, &out)
}

// id is the same for the same answers, so that a repeated request is one update.
func (r Resumption) id() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", r.RunID, r.Digest)
	for _, e := range r.Entries {
		fmt.Fprintf(h, " %q %s", e.InterruptID, answerDigest(e))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// passing reports whether an update may succeed when it is sent again: the workflow is between two of its runs, or the
// engine is busy.
func passing(err error) bool {
	var notReady *serviceerror.WorkflowNotReady
	var exhausted *serviceerror.ResourceExhausted
	var aborted *serviceerror.Aborted
	var internal *serviceerror.Internal
	var unavailable *serviceerror.Unavailable
	return errors.As(err, &notReady) || errors.As(err, &exhausted) || errors.As(err, &aborted) || errors.As(err, &internal) || errors.As(err, &unavailable)
}

// late answers for a thread without an open execution. It reports false if it has one after all.
func (c *Client) late(ctx context.Context, tenant, thread string, r Resumption) (out Resumed, closed bool, err error) {
	d, err := c.temporal.DescribeWorkflow(ctx, subject.WorkflowID(tenant, thread), "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return out, true, refuse(CodeNothingToResume, "resume", "the thread waits for no answer")
	case err != nil:
		return out, false, err
	case d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return out, false, nil
	}
	kept, err := c.kept(ctx, d.WorkflowExecution.ID, d.WorkflowExecution.RunID)
	if err != nil {
		return out, true, err
	}
	out, refused := kept.repeated(r)
	if refused != nil {
		return out, true, refused
	}
	return out, true, nil
}

// kept is what a closed execution has left to its thread.
func (c *Client) kept(ctx context.Context, id, run string) (Kept, error) {
	var result RunResult
	err := c.temporal.GetWorkflow(ctx, id, run).Get(ctx, &result)
	if err == nil {
		return result.Kept, nil
	}
	var kept Kept
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.HasDetails() {
		return kept, app.Details(&kept)
	}
	if cancelled, ok := errors.AsType[*temporal.CanceledError](err); ok && cancelled.HasDetails() {
		return kept, cancelled.Details(&kept)
	}
	if _, ended := errors.AsType[*temporal.WorkflowExecutionError](err); !ended {
		return kept, fmt.Errorf("what the thread keeps: %w", err)
	}
	return c.before(ctx, id, run)
}

// last is what the thread's last execution has left, if it is closed. Another run of the same thread that starts and ends
// between this and the start of the next is passed over: whoever posts two runs at once has not seen the state of either.
// Again says that it was of this very run.
func (c *Client) last(ctx context.Context, id string, run agui.RunID) (kept Kept, again bool, err error) {
	d, err := c.temporal.DescribeWorkflow(ctx, id, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return Kept{}, false, nil
	}
	if err != nil || d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return Kept{}, false, err
	}
	var before agui.RunID
	if err := c.fromMemo(d.Memo, memoRun, &before); err != nil {
		return Kept{}, false, err
	}
	if before == run && told(d.Status) {
		return Kept{}, true, nil
	}
	kept, err = c.kept(ctx, id, d.WorkflowExecution.RunID)
	return kept, false, err
}

// before is what the thread kept before an execution that left nothing: one that was terminated.
func (c *Client) before(ctx context.Context, id, run string) (Kept, error) {
	events := c.temporal.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	first, err := events.Next()
	if err != nil {
		return Kept{}, fmt.Errorf("what the thread keeps: %w", err)
	}
	payloads := first.GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads()
	if len(payloads) != 1 {
		return Kept{}, nil
	}
	if c.blobs != nil { // the SDK leaves histories as they are
		if payloads[0], err = c.blobs.Resolve(ctx, payloads[0]); err != nil {
			return Kept{}, fmt.Errorf("what the thread keeps: %w", err)
		}
	}
	var in struct {
		Kept Kept `json:"kept"`
	}
	if err := c.converter.FromPayload(payloads[0], &in); err != nil {
		return Kept{}, fmt.Errorf("what the thread keeps: %w", err)
	}
	return in.Kept, nil
}

// Describe describes a thread. It asks the worker that has it, unless the thread's last execution is closed.
func (c *Client) Describe(ctx context.Context, tenant, thread string) (ThreadStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id := subject.WorkflowID(tenant, thread)
	d, err := c.temporal.DescribeWorkflow(ctx, id, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return ThreadStatus{Status: StatusNone}, nil
	}
	if err != nil {
		return ThreadStatus{}, fmt.Errorf("describe thread: %w", err)
	}
	if d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		value, err := c.temporal.QueryWorkflow(ctx, id, "", describeName)
		if err != nil {
			return ThreadStatus{}, fmt.Errorf("describe thread: %w", err)
		}
		var status ThreadStatus
		return status, value.Get(&status)
	}
	kept, err := c.kept(ctx, id, d.WorkflowExecution.RunID)
	if err != nil {
		return ThreadStatus{}, fmt.Errorf("describe thread: %w", err)
	}
	status := kept.status()
	if status.RunID == "" { // it left nothing
		if err := c.fromMemo(d.Memo, memoRun, &status.RunID); err != nil {
			return ThreadStatus{}, fmt.Errorf("describe thread: %w", err)
		}
	}
	return status, nil
}

// Waiting lists what waits for people, and where the next page begins; nil where there is none. The order is Temporal's,
// and so is the delay, of a second or so, with which a change shows.
func (c *Client) Waiting(ctx context.Context, f WaitingFilter) ([]WaitingThread, []byte, error) {
	query := []string{`ExecutionStatus = "Running"`, fmt.Sprintf("%s = %q", attributeStatus, StatusWaiting), fmt.Sprintf("%s = %q", attributeTenant, subject.Token(f.Tenant))}
	if f.Agent != "" {
		if strings.ContainsFunc(f.Agent, func(r rune) bool { return r == '"' || r == '\\' || r == '\'' || r < ' ' }) {
			return nil, nil, nil // no agent has such a name
		}
		query = append(query, fmt.Sprintf(`%s = "%s"`, attributeAgent, f.Agent))
	}
	if !f.Before.IsZero() {
		query = append(query, fmt.Sprintf("%s < %q", attributeSince, f.Before.UTC().Format(time.RFC3339Nano)))
	}
	if f.Limit <= 0 || f.Limit > maxWaitingPage {
		f.Limit = maxWaitingPage
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: strings.Join(query, " AND "), PageSize: int32(f.Limit), NextPageToken: f.Page,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list what waits: %w", err)
	}
	var found []WaitingThread
	for _, e := range list.Executions {
		var memo pauseMemo
		if err := c.fromMemo(e.Memo, memoPause, &memo); err != nil {
			return nil, nil, fmt.Errorf("list what waits: %s: %w", e.Execution.GetWorkflowId(), err)
		}
		if memo.Count == 0 {
			continue // answered since
		}
		found = append(found, WaitingThread{
			Thread: memo.Thread, Agent: memo.Agent, RunID: memo.Run, Since: memo.Since, Interrupts: memo.Interrupts, Count: memo.Count,
		})
	}
	return found, list.NextPageToken, nil
}

// fromMemo reads a member of a memo; one that is not there, or null, leaves the value as it is.
func (c *Client) fromMemo(m *commonpb.Memo, key string, into any) error {
	p, ok := m.GetFields()[key]
	if !ok || len(p.GetData()) == 0 {
		return nil
	}
	var raw json.RawMessage
	if err := c.converter.FromPayload(p, &raw); err != nil {
		return fmt.Errorf("memo %s: %w", key, err)
	}
	if string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("memo %s: %w", key, err)
	}
	return nil
}

// paused reports whether an open execution waits for people.
func (c *Client) paused(ctx context.Context, id string) (bool, error) {
	d, err := c.temporal.DescribeWorkflow(ctx, id, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var memo pauseMemo
	err = c.fromMemo(d.Memo, memoPause, &memo)
	return memo.Count > 0 && d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, err
}
