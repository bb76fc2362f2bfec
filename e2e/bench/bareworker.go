package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	bareQueue = "bare"

	bareStepsWorkflow     = "bare.steps"
	bareReferenceWorkflow = "bare.reference"
	bareTextWorkflow      = "bare.text"
	barePublishWorkflow   = "bare.publish"

	bareStream = "BARE"
	bareLog    = "bare.log."
	bareLive   = "bare.live."
)

// bareInput is what a bare workflow gets; each uses what it needs.
type bareInput struct {
	ID    string        `json:"id"`
	Model string        `json:"model,omitempty"`
	Words int           `json:"words,omitempty"`
	Every time.Duration `json:"every,omitempty"`
}

// childBare is a worker of workflows and activities as one writes them without Holdfast, with the settings of Holdfast's
// worker.
func childBare(ctx context.Context, log *slog.Logger) error {
	nc, err := nats.Connect(os.Getenv(natsVariable))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: bareStream, Subjects: []string{bareLog + ">"}, Storage: jetstream.FileStorage,
		RePublish: &jetstream.RePublish{Source: bareLog + ">", Destination: bareLive + ">"},
	}); err != nil {
		return err
	}
	tc, err := client.DialContext(ctx, temporalOptions(log))
	if err != nil {
		return err
	}
	defer tc.Close()
	w := worker.New(tc, bareQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: 500,
		MaxConcurrentActivityTaskPollers:   8,
		MaxConcurrentWorkflowTaskPollers:   8,
		StickyScheduleToStartTimeout:       time.Second,
	})
	a := bareActivities{nc: nc, js: js, model: os.Getenv(modelVariable), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	for name, f := range map[string]any{
		bareStepsWorkflow: bareSteps, bareReferenceWorkflow: bareReference, bareTextWorkflow: bareText, barePublishWorkflow: barePublish,
		bareAnswerWorkflow: bareAnswered, bareHangWorkflow: bareHang,
	} {
		w.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	for name, f := range map[string]any{"step": a.step, "ask": a.ask, "nap": a.nap, "text": a.text, "publish": a.publish, "hang": a.hang} {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		return err
	}
	if err := ready(announcement{}); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop()
	return nil
}

func bareOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}

func bareSteps(ctx workflow.Context, in bareInput) error {
	ctx = bareOptions(ctx)
	for _, what := range []string{signalBegan, signalDone} {
		if err := workflow.ExecuteActivity(ctx, "step", in.ID, what).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func bareReference(ctx workflow.Context, in bareInput) error {
	ctx = bareOptions(ctx)
	if err := workflow.ExecuteActivity(ctx, "ask", in, 0).Get(ctx, nil); err != nil {
		return err
	}
	if err := workflow.ExecuteActivity(ctx, "nap").Get(ctx, nil); err != nil {
		return err
	}
	return workflow.ExecuteActivity(ctx, "ask", in, 1).Get(ctx, nil)
}

func bareText(ctx workflow.Context, in bareInput) error {
	ctx = bareOptions(ctx)
	if err := workflow.ExecuteActivity(ctx, "text", in.Words).Get(ctx, nil); err != nil {
		return err
	}
	return workflow.ExecuteActivity(ctx, "step", in.ID, signalDone).Get(ctx, nil)
}

func barePublish(ctx workflow.Context, in bareInput) error {
	ctx = bareOptions(ctx)
	return workflow.ExecuteActivity(ctx, "publish", in).Get(ctx, nil)
}

type bareActivities struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	model string
	http  *http.Client
}

func (a bareActivities) tell(id, what string) error {
	return a.nc.Publish(signalSubject+id+"."+what, []byte(strconv.FormatInt(time.Now().UnixNano(), 10)))
}

// tellFailure lets the client give up at once, when it is deferred.
func (a bareActivities) tellFailure(id string, err *error) {
	if *err != nil {
		*err = errors.Join(*err, a.nc.Publish(signalSubject+id+"."+signalFailed, []byte((*err).Error())))
	}
}

func (a bareActivities) step(_ context.Context, id, what string) error { return a.tell(id, what) }

func (a bareActivities) nap(ctx context.Context) error { return pause(ctx, time.Millisecond) }

func (a bareActivities) text(words int) (string, error) { return strings.Repeat("word ", words), nil }

// ask makes one model call of the reference run with nothing but an HTTP client, and returns what was said.
func (a bareActivities) ask(ctx context.Context, in bareInput, turn int) (text string, err error) {
	defer a.tellFailure(in.ID, &err)
	if turn == 0 {
		if err := a.tell(in.ID, signalBegan); err != nil {
			return "", err
		}
	}
	messages := `[{"role":"user","content":"go"}`
	if turn == 1 {
		messages += `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_w1","type":"function","function":{"name":"sleep_ms","arguments":"{\"ms\":1}"}}]}` +
			`,{"role":"tool","tool_call_id":"call_w1","content":"ok"}`
	}
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":%s],"tools":[{"type":"function","function":{"name":"sleep_ms","parameters":{"type":"object","properties":{"ms":{"type":"integer"}}}}}]}`, in.Model, messages)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.model+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := a.http.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // best effort: it is for an error
		return "", fmt.Errorf("model: %s: %s", res.Status, why)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(res.Body); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return "", err
			}
			break
		}
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: {"))
		if !ok {
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(append([]byte("{"), data...), &c); err != nil {
			return "", err
		}
		if len(c.Choices) == 0 || c.Choices[0].Delta.Content == "" {
			continue
		}
		if said.Len() == 0 {
			if err := a.tell(in.ID, signalText); err != nil {
				return "", err
			}
		}
		said.WriteString(c.Choices[0].Delta.Content)
	}
	if turn == 1 {
		return said.String(), a.tell(in.ID, signalDone)
	}
	return said.String(), nil
}

// publish puts one message a word into a stream, each with an acknowledgement: one after the other when they are paced,
// as many in flight as the client has by default when they are not.
func (a bareActivities) publish(ctx context.Context, in bareInput) (err error) {
	defer a.tellFailure(in.ID, &err)
	subject := bareLog + in.ID
	wait := pace(in.Every)
	for range in.Words {
		if err := wait(ctx); err != nil {
			return err
		}
		data := bareEvent()
		if in.Every == 0 {
			if _, err := a.js.PublishAsync(subject, data, jetstream.WithStallWait(time.Minute)); err != nil {
				return err
			}
		} else if _, err := a.js.Publish(ctx, subject, data); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.js.PublishAsyncComplete():
		return nil
	}
}

// bareEvent is an event like those of the source agent.
func bareEvent() []byte {
	return []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"source-18f3a2b4c5d-1000-msg-1","delta":"` + stamp() + `"}`)
}
