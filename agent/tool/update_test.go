package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// act runs fn as a tool whose call is recorded.
func act(t *testing.T, r *recorder, call *tool.Call, fn func(ctx context.Context, call *tool.Call) error) (tool.Result, error) {
	t.Helper()
	result, err := tool.Run(t.Context(), doing(func(ctx context.Context, call *tool.Call) (string, error) { return "done", fn(ctx, call) }), call, nil)
	r.valid(t)
	return result, err
}

// percents are what was shown of progress.
func (r *recorder) percents(t *testing.T) (list []float64) {
	t.Helper()
	for _, e := range r.events {
		var content struct {
			Percent float64 `json:"percent"`
		}
		if err := json.Unmarshal(e.(*agui.ActivitySnapshot).Content, &content); err != nil {
			t.Fatal(err)
		}
		list = append(list, content.Percent)
	}
	return list
}

func TestT51ProgressIsHeldToItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		_, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
			for i := range 1000 {
				time.Sleep(50 * time.Microsecond) // of the bubble's clock
				if err := call.Progress(ctx, float64(i)/10, "counting"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float64{0, 99.9}, r.percents(t)); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
	})
}

// Progress that was held back is shown when its time has come, without another call.
func TestT51HeldProgressIsShownInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		var at []time.Duration
		start := time.Now()
		call := r.call(func(i *tool.CallInfo) {
			i.Sink = func(ctx context.Context, e agui.Event) error {
				at = append(at, time.Since(start))
				return r.sink(ctx, e)
			}
		})
		if _, err := act(t, &r, call, func(ctx context.Context, call *tool.Call) error {
			for _, p := range []float64{1, 2, 3} {
				if err := call.Progress(ctx, p, ""); err != nil {
					return err
				}
			}
			time.Sleep(time.Second)
			return call.Progress(ctx, 4, "")
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float64{1, 3, 4}, r.percents(t)); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{0, tool.ProgressInterval, time.Second}, at); diff != "" {
			t.Errorf("at (-want +got):\n%s", diff)
		}
	})
}

// A report's own context may end long before the progress that it brought is due.
func TestT51ProgressOutlivesTheContextOfItsReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		if _, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
			for _, p := range []float64{1, 2} {
				short, cancel := context.WithCancel(ctx)
				err := call.Progress(short, p, "")
				cancel()
				if err != nil {
					return err
				}
			}
			time.Sleep(tool.ProgressInterval)
			synctest.Wait()
			if got := len(r.events); got != 2 {
				t.Errorf("%d events were shown in time, want 2", got)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float64{1, 2}, r.percents(t)); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
	})
}

// The last progress is not lost when the tool fails, is stopped or runs out of time.
func TestT51LastProgressOfAFailedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		if _, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
			for _, p := range []float64{1, 2, 3} {
				if err := call.Progress(ctx, p, ""); err != nil {
					return err
				}
			}
			return errors.New("broken")
		}); err == nil {
			t.Error("the call succeeded")
		}
		if diff := cmp.Diff([]float64{1, 3}, r.percents(t)); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
	})
}

func TestT52ProgressIsClamped(t *testing.T) {
	t.Parallel()
	for percent, want := range map[float64]float64{150: 100, -3: 0, 42.5: 42.5, math.Inf(1): 100, math.Inf(-1): 0, math.NaN(): 0} {
		var r recorder
		if _, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error { return call.Progress(ctx, percent, "") }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float64{want}, r.percents(t)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", percent, diff)
		}
	}
}

func TestT53PreliminaryOutputsReplaceEachOther(t *testing.T) {
	t.Parallel()
	var r recorder
	_, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
		return errors.Join(call.Preliminary(ctx, "A <b>"), call.Preliminary(ctx, map[string]int{"n": 1}))
	})
	if err != nil {
		t.Fatal(err)
	}
	r.has(t,
		`c1-out tool_output {"toolCallId":"c1","output":"A \u003cb\u003e"}`,
		`c1-out tool_output {"toolCallId":"c1","output":{"n":1}}`)
}

func TestT54DataIsReplacedByItsID(t *testing.T) {
	t.Parallel()
	var r recorder
	_, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
		return errors.Join(
			call.Data(ctx, "plan", "plan", map[string]int{"step": 1}),
			call.Data(ctx, "plan", "plan", map[string]int{"step": 2}),
			call.Data(ctx, "rows", "table", []int{1, 2}))
	})
	if err != nil {
		t.Fatal(err)
	}
	r.has(t, `plan plan {"step":1}`, `plan plan {"step":2}`, `rows table {"value":[1,2]}`)
	for _, bad := range [][2]string{{"", "n"}, {"i", ""}, {strings.Repeat("i", 257), "n"}} {
		if err := r.call().Data(t.Context(), bad[0], bad[1], 1); err == nil {
			t.Errorf("data %.10q %.10q was taken", bad[0], bad[1])
		}
	}
}

func TestPartialDataIsNumbered(t *testing.T) {
	t.Parallel()
	var r recorder
	_, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
		return errors.Join(call.Partial(ctx, "a"), call.Partial(ctx, []int{1}))
	})
	if err != nil {
		t.Fatal(err)
	}
	r.has(t,
		`c1-partial tool_partial {"toolCallId":"c1","chunks":[]}`,
		`c1-partial + {"index":0,"data":"a"}`,
		`c1-partial + {"index":1,"data":[1]}`)
	fold := new(agui.Fold)
	for _, e := range append([]agui.Event{&agui.RunStarted{RunID: "r"}}, r.events...) {
		if err := fold.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	shown := fold.Messages()[0].ActivityContent
	if want := `{"chunks":[{"data":"a","index":0},{"data":[1],"index":1}],"toolCallId":"c1"}`; string(shown) != want {
		t.Errorf("a client has %s, want %s", shown, want)
	}
}

func TestT55FilesArePartOfTheResult(t *testing.T) {
	t.Parallel()
	var r recorder
	const page, shot = "https://example.com/a.pdf", "data:image/png;base64,aGk="
	result, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
		return errors.Join(call.File(ctx, "application/pdf", page), call.Content(ctx, "image/png", shot))
	})
	if err != nil {
		t.Fatal(err)
	}
	r.has(t,
		`c1-file-0 tool_file {"toolCallId":"c1","mediaType":"application/pdf","url":"`+page+`"}`,
		`c1-file-1 tool_file {"toolCallId":"c1","mediaType":"image/png","url":"`+shot+`","forModel":true}`)
	document := agui.URLPart(agui.PartDocument, page)
	document.Source.MimeType = new("application/pdf")
	image := agui.DataPart(agui.PartImage, "image/png", "aGk=")
	if want := agui.Parts(agui.TextPart("done"), document, image); !result.Content.Equal(want) {
		t.Errorf("result %v, want %v", result.Content, want)
	}
	if diff := cmp.Diff([]agui.ContentPart{image}, result.ForModel); diff != "" {
		t.Errorf("for the model (-want +got):\n%s", diff)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	var r recorder
	call := r.call()
	for _, bad := range [][2]string{
		{"png", "https://example.com/a.png"},
		{"image/png", "/etc/passwd"},
		{"image/png", "file:///etc/passwd"},
		{"image/png", "https://"},
		{"image/png", "data:image/png,hi"},
		{"image/png", "data:image/png;base64,!"},
		{"image/png", "data:image/png;base64," + strings.Repeat("A", tool.MaxFileBytes)},
	} {
		if err := call.File(t.Context(), bad[0], bad[1]); err == nil {
			t.Errorf("%.40q was taken", bad)
		} else if strings.Contains(err.Error(), "passwd") {
			t.Errorf("%v repeats the address", err)
		}
	}
	r.has(t)
}

func TestEmitHoldsEventsAgainstTheProtocol(t *testing.T) {
	t.Parallel()
	var r recorder
	_, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
		for _, reserved := range []agui.Event{
			&agui.RunStarted{}, &agui.RunFinished{}, &agui.RunError{}, &agui.MessagesSnapshot{}, &agui.StateSnapshot{}, &agui.StateDelta{},
		} {
			if err := call.Emit(ctx, reserved); !errors.Is(err, tool.ErrReserved) {
				t.Errorf("%s: %v, want ErrReserved", reserved.Type(), err)
			}
		}
		for _, reserved := range []agui.Event{
			&agui.ToolCallStart{ToolCallID: "c1"}, &agui.ToolCallChunk{ToolCallID: new(agui.ToolCallID("c1"))}, &agui.ToolCallResult{ToolCallID: "c1"},
			&agui.ToolCallResult{ToolCallID: "another's"},
		} {
			if err := call.Emit(ctx, reserved); !errors.Is(err, tool.ErrReserved) {
				t.Errorf("%s: %v, want ErrReserved", reserved.Type(), err)
			}
		}
		for _, invalid := range []agui.Event{
			&agui.ToolCallEnd{ToolCallID: "c1"}, &agui.ToolCallArgs{ToolCallID: "c1"}, &agui.TextMessageContent{MessageID: "m", Delta: "x"},
		} {
			if _, ok := errors.AsType[*agui.Violation](call.Emit(ctx, invalid)); !ok {
				t.Errorf("%s was taken", invalid.Type())
			}
		}
		return errors.Join(
			call.Emit(ctx, &agui.Custom{Name: "beep"}),
			call.Emit(ctx, &agui.StepStarted{StepName: "look"}),
			call.Emit(ctx, &agui.TextMessageStart{MessageID: "m"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	r.has(t, "CUSTOM beep", "STEP look", "TEXT m", "TEXT END m", "STEP END look") // what was left open is closed
}

func TestReportsCarryTheCallsAttribution(t *testing.T) {
	t.Parallel()
	var r recorder
	call := r.call(func(i *tool.CallInfo) { i.Subagent = new(agui.SubagentRunID("r-sub-1")) })
	result, err := tool.Run(t.Context(), doing(func(ctx context.Context, call *tool.Call) (string, error) {
		sub, err := call.Subagent(ctx, "inner", noOptions)
		if err != nil {
			return "", err
		}
		_, err = sub.Say("hi")
		return "ok", errors.Join(err, sub.Finish(), call.Preliminary(ctx, 1), call.Emit(ctx, &agui.Custom{Name: "beep"}))
	}), call, nil)
	if err != nil || result.Content.Text() != "ok" {
		t.Fatal(result, err)
	}
	r.has(t,
		"SUBAGENT c1-sub-1 inner of c1 in r-sub-1", "TEXT c1-sub-1-msg-1 @c1-sub-1", "+ hi @c1-sub-1", "TEXT END c1-sub-1-msg-1 @c1-sub-1", "SUBAGENT END c1-sub-1 success",
		`c1-out tool_output {"toolCallId":"c1","output":1} @r-sub-1`, "CUSTOM beep @r-sub-1")
}

// What a tool leaves running when it returns can say nothing any more.
func TestACallThatIsOverIsSilent(t *testing.T) {
	t.Parallel()
	var r recorder
	call := r.call(func(i *tool.CallInfo) { i.State = &tool.Lease{Write: true} })
	var view *tool.StateView[map[string]int]
	if _, err := act(t, &r, call, func(_ context.Context, call *tool.Call) (err error) {
		view, err = tool.State[map[string]int](call)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, subagent := call.Subagent(ctx, "late", noOptions)
	_, state := tool.State[int](call)
	for name, err := range map[string]error{
		"progress": call.Progress(ctx, 1, ""), "preliminary": call.Preliminary(ctx, 1), "partial": call.Partial(ctx, 1), "data": call.Data(ctx, "i", "n", 1),
		"file": call.File(ctx, "image/png", "https://example.com/a.png"), "emit": call.Emit(ctx, &agui.Custom{}), "subagent": subagent, "state": state,
		"publish": view.Update(ctx, func(m *map[string]int) { *m = map[string]int{"a": 1} }),
	} {
		if !errors.Is(err, tool.ErrCallOver) {
			t.Errorf("%s: %v, want ErrCallOver", name, err)
		}
	}
	r.has(t)
}

func TestReportsEndWithTheContext(t *testing.T) {
	t.Parallel()
	var r recorder
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.call().Preliminary(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.has(t)
}

func TestReportsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	var r recorder
	large := strings.Repeat("x", tool.MaxReportBytes)
	call := r.call()
	for name, err := range map[string]error{
		"preliminary": call.Preliminary(t.Context(), large), "partial": call.Partial(t.Context(), large), "data": call.Data(t.Context(), "i", "n", large),
		"no JSON": call.Partial(t.Context(), func() {}),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	r.has(t)
	if err := call.Progress(t.Context(), 1, strings.Repeat("é", 10000)); err != nil || len(r.events[0].(*agui.ActivitySnapshot).Content) > 2000 {
		t.Errorf("a long message was not cut: %v", err)
	}
}

// A tool that is tested alone has no call. It copes without a check.
func TestANilCallCopes(t *testing.T) {
	t.Parallel()
	result, err := doing(func(ctx context.Context, call *tool.Call) (string, error) {
		if call != nil {
			t.Error("there is a call")
		}
		if _, ok := tool.FromContext(ctx); ok {
			t.Error("the context has a call")
		}
		if _, err := tool.State[int](call); !errors.Is(err, tool.ErrNoLease) {
			t.Errorf("state: %v", err)
		}
		sub, err := call.Subagent(ctx, "helper", noOptions)
		if err != nil {
			return "", err
		}
		_, err = sub.Say("hello")
		return fmt.Sprint(call.ID(), call.Attempt(), call.Entry(), call.IdempotencyKey(), call.ThreadID(), call.RunID()), errors.Join(err, sub.Close(),
			call.Progress(ctx, 1, ""), call.Preliminary(ctx, 1), call.Partial(ctx, 1), call.Data(ctx, "i", "n", 1),
			call.File(ctx, "image/png", "https://example.com/a.png"), call.Content(ctx, "image/png", "https://example.com/a.png"), call.Emit(ctx, &agui.Custom{}))
	}).Call(t.Context(), nil, nil)
	if err != nil || result.Content.Text() != "1 1" {
		t.Errorf("%q, %v", result.Content.Text(), err)
	}
}

func TestReportsFromManyGoroutines(t *testing.T) {
	t.Parallel()
	var r recorder
	if _, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() {
				sub, err := call.Subagent(ctx, "worker", noOptions)
				if err != nil {
					errs[i] = err
					return
				}
				for range 20 {
					_, said := sub.Say("x")
					err = errors.Join(err, said, call.Progress(ctx, 1, ""), call.Partial(ctx, i), call.Emit(ctx, &agui.Custom{Name: "n"}))
				}
				errs[i] = errors.Join(err, sub.Finish())
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
}
