package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

type chunks = func(ctx context.Context, yield func(tool.Chunk) bool)

// streaming is a tool that yields what fn does.
func streaming(limits tool.Limits, fn chunks) tool.Tool {
	return tool.NewStream(tool.Spec{Name: "stream", Stream: limits}, func(ctx context.Context, _ *tool.Call, _ none) iter.Seq[tool.Chunk] {
		return func(yield func(tool.Chunk) bool) { fn(ctx, yield) }
	})
}

// stream runs fn as a streaming tool. What it reports is in r.
func stream(t *testing.T, r *recorder, limits tool.Limits, fn chunks) (tool.Result, error) {
	t.Helper()
	result, err := tool.Run(t.Context(), streaming(limits, fn), r.call(), nil)
	r.valid(t)
	return result, err
}

func yields(list ...tool.Chunk) chunks {
	return func(_ context.Context, yield func(tool.Chunk) bool) {
		for _, c := range list {
			if !yield(c) {
				return
			}
		}
	}
}

func TestT56StreamOfPartials(t *testing.T) {
	t.Parallel()
	var r recorder
	result, err := stream(t, &r, tool.Limits{}, yields(tool.Progress(50, "half"), tool.Partial("a"), tool.Partial(1), tool.Complete(map[string]int{"n": 2})))
	if err != nil {
		t.Fatal(err)
	}
	r.has(t,
		`c1-progress tool_progress {"toolCallId":"c1","percent":50,"message":"half"}`,
		`c1-partial tool_partial {"toolCallId":"c1","chunks":[]}`, `c1-partial + {"index":0,"data":"a"}`, `c1-partial + {"index":1,"data":1}`)
	if got := result.Content.Text(); got != `{"n":2}` {
		t.Errorf("result %s", got)
	}
}

func TestT57NothingComesBehindTheEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end   tool.Chunk
		shown string // of an error
	}{
		"error":            {tool.Failed(tool.Errorf("No paper.")), "No paper."},
		"any error":        {tool.Failed(errors.New("open /etc/x")), "The tool stream failed."},
		"no error at all":  {tool.Failed(nil), "The tool stream failed."},
		"complete":         {tool.Complete("ok"), ""},
		"what is no JSON":  {tool.Complete(func() {}), "The tool stream failed."},
		"partial no JSON":  {tool.Partial(func() {}), "The tool stream failed."},
		"an unknown chunk": {tool.Chunk{}, "The tool stream failed."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r recorder
			stopped := make(chan bool, 2)
			result, err := stream(t, &r, tool.Limits{}, func(_ context.Context, yield func(tool.Chunk) bool) {
				yield(tool.Partial("before"))
				stopped <- !yield(test.end)
				yield(tool.Partial("after")) // a range loop panics at this, and must not take the worker with it
			})
			r.has(t, `c1-partial tool_partial {"toolCallId":"c1","chunks":[]}`, `c1-partial + {"index":0,"data":"before"}`)
			if test.shown == "" {
				if err != nil || result.Content.Text() != "ok" {
					t.Errorf("%v, %v", result, err)
				}
			} else if shown, ok := errors.AsType[*tool.Error](err); !ok || shown.Message != test.shown {
				t.Errorf("%v, want %q", err, test.shown)
			}
			if name != "an unknown chunk" && !<-stopped {
				t.Error("the stream was not told to end")
			}
		})
	}
}

func TestT58StreamsThatGoWrong(t *testing.T) {
	t.Parallel()
	endless := func(_ context.Context, yield func(tool.Chunk) bool) {
		for yield(tool.Partial("x")) {
		}
	}
	stuck := func(ctx context.Context, yield func(tool.Chunk) bool) {
		yield(tool.Partial("x"))
		<-ctx.Done()
	}
	deaf := func(_ context.Context, yield func(tool.Chunk) bool) {
		time.Sleep(time.Hour) // of the bubble's clock: it doesn't heed its context
		yield(tool.Partial("x"))
	}
	slow := func(_ context.Context, yield func(tool.Chunk) bool) {
		for yield(tool.Partial("x")) {
			time.Sleep(time.Second)
		}
	}
	for name, test := range map[string]struct {
		limits    tool.Limits
		fn        chunks
		is        error
		message   string
		retryable bool
		after     time.Duration
	}{
		"no end":         {fn: yields(tool.Partial("x")), is: tool.ErrNoTerminal, message: "The tool ended without a result."},
		"nothing at all": {fn: yields(), is: tool.ErrNoTerminal, message: "The tool ended without a result."},
		"too many":       {limits: tool.Limits{Chunks: 3}, fn: endless, is: tool.ErrTooManyChunks, message: "The tool reported more than 3 times and was stopped."},
		"stall":          {fn: stuck, is: tool.ErrStalled, message: "The tool reported nothing for 30s and was stopped.", retryable: true, after: 30 * time.Second},
		"stall, deaf":    {limits: tool.Limits{Stall: time.Minute}, fn: deaf, is: tool.ErrStalled, message: "The tool reported nothing for 1m0s and was stopped.", retryable: true, after: time.Minute + time.Second},
		"too long":       {limits: tool.Limits{Duration: 10 * time.Second}, fn: slow, is: context.DeadlineExceeded, message: "The tool stream took too long and was stopped.", retryable: true, after: 11 * time.Second},
		"tool's time":    {fn: slow, is: context.DeadlineExceeded, message: "The tool stream took too long and was stopped.", retryable: true, after: tool.DefaultTimeout + time.Second},
		"a panic":        {fn: func(context.Context, func(tool.Chunk) bool) { panic("boom") }, message: "The tool stream failed."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var r recorder
				start := time.Now()
				_, err := stream(t, &r, test.limits, test.fn)
				shown, ok := errors.AsType[*tool.Error](err)
				if !ok || test.is != nil && !errors.Is(err, test.is) || shown.Message != test.message || shown.Retryable != test.retryable {
					t.Errorf("%v, retryable %t", err, ok && shown.Retryable)
				}
				if took := time.Since(start); took > test.after {
					t.Errorf("it took %s, want %s at most", took, test.after)
				}
				time.Sleep(2 * time.Hour) // whoever was left behind comes to an end
			})
		})
	}
}

// The limit counts the terminal chunk.
func TestStreamOfExactlyTheLimit(t *testing.T) {
	t.Parallel()
	var r recorder
	if _, err := stream(t, &r, tool.Limits{Chunks: 2}, yields(tool.Partial(1), tool.Complete("ok"))); err != nil {
		t.Error(err)
	}
}

// Leaving a stream early frees what it holds.
func TestStreamsAreToldToEnd(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	var r recorder
	if _, err := stream(t, &r, tool.Limits{}, func(ctx context.Context, yield func(tool.Chunk) bool) {
		defer close(ended)
		yield(tool.Complete("ok"))
		<-ctx.Done()
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	default:
		t.Error("the call is over and its stream is not")
	}
}

func TestChunksSurviveJSON(t *testing.T) {
	t.Parallel()
	image := agui.URLPart(agui.PartImage, "https://example.com/a.png")
	for _, c := range []tool.Chunk{
		tool.Progress(12.5, "on it"), tool.Partial(map[string]int{"n": 1}), tool.Complete("ok"), tool.Complete(tool.Result{
			Content: agui.Parts(agui.TextPart("look"), image), ForModel: []agui.ContentPart{image},
		}), tool.Failed(&tool.Error{Message: "Later.", Retryable: true}),
	} {
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back tool.Chunk
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(data) || back.Terminal() != c.Terminal() {
			t.Errorf("%s became %s, %v", data, again, err)
		}
		var r, direct recorder
		result, err := stream(t, &r, tool.Limits{}, yields(back, tool.Complete("end")))
		want, wantErr := stream(t, &direct, tool.Limits{}, yields(c, tool.Complete("end")))
		if !result.Content.Equal(want.Content) || cmp.Diff(want.ForModel, result.ForModel) != "" || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: result %v, %v; want %v, %v", data, result, err, want, wantErr)
		}
		for i := range direct.events {
			if brief(direct.events[i]) != brief(r.events[i]) {
				t.Errorf("%s: %s, want %s", data, brief(r.events[i]), brief(direct.events[i]))
			}
		}
	}
	secret, err := json.Marshal(tool.Failed(&tool.Error{Message: "Broken.", Err: errors.New("password hunter2")}))
	if err != nil || strings.Contains(string(secret), "hunter2") {
		t.Errorf("%s, %v", secret, err)
	}
	if err := json.Unmarshal([]byte(`{"kind":"hash"}`), new(tool.Chunk)); err == nil {
		t.Error("an unknown chunk was read")
	}
}

func TestNewStreamPanics(t *testing.T) {
	t.Parallel()
	ok := func(context.Context, *tool.Call, none) iter.Seq[tool.Chunk] { return nil }
	for want, f := range map[string]func(){
		"no function": func() { tool.NewStream[none](tool.Spec{Name: "x"}, nil) },
		"tool name":   func() { tool.NewStream(tool.Spec{}, ok) },
		"negative":    func() { tool.NewStream(tool.Spec{Name: "x", Stream: tool.Limits{Chunks: -1}}, ok) },
		"arguments": func() {
			tool.NewStream(tool.Spec{Name: "x"}, func(context.Context, *tool.Call, int) iter.Seq[tool.Chunk] { return nil })
		},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.HasPrefix(got, "tool.NewStream: ") || !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}
