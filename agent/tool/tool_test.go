package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

type none struct{}

// doing returns a tool without arguments that does fn.
func doing[Out any](fn func(ctx context.Context, call *tool.Call) (Out, error)) tool.Tool {
	return tool.New(tool.Spec{Name: "act"}, func(ctx context.Context, call *tool.Call, _ none) (Out, error) { return fn(ctx, call) })
}

func returning[Out any](out Out) tool.Tool {
	return doing(func(context.Context, *tool.Call) (Out, error) { return out, nil })
}

func failing(err error) tool.Tool {
	return doing(func(context.Context, *tool.Call) (string, error) { return "", err })
}

func run(t *testing.T, tl tool.Tool) (tool.Result, *tool.Error) {
	t.Helper()
	result, err := tool.Run(t.Context(), tl, tool.NewCall(tool.CallInfo{ID: "c1"}), nil)
	if err == nil {
		return result, nil
	}
	shown, ok := errors.AsType[*tool.Error](err)
	if !ok {
		t.Fatalf("error %T %v, want a *tool.Error", err, err)
	}
	return result, shown
}

func TestResultsBecomeWhatTheModelReads(t *testing.T) {
	t.Parallel()
	type report string
	image := agui.Parts(agui.TextPart("look"), agui.URLPart(agui.PartImage, "https://example.com/a.png"))
	for name, test := range map[string]struct {
		tool tool.Tool
		want agui.Content
	}{
		"text":          {returning("a <b> & \"c\""), agui.Text("a <b> & \"c\"")},
		"named text":    {returning(report("r")), agui.Text("r")},
		"struct":        {returning(item{SKU: "<a>", Count: 1}), agui.Text(`{"sku":"<a>","count":1}`)},
		"nil pointer":   {returning((*item)(nil)), agui.Text("null")},
		"nil any":       {returning(any(nil)), agui.Text("null")},
		"raw JSON":      {returning(json.RawMessage(`{ "a" : 1 }`)), agui.Text(`{"a":1}`)},
		"large integer": {returning(int64(math.MaxInt64)), agui.Text("9223372036854775807")},
		"parts":         {returning(tool.Result{Content: image}), image},
		"nothing":       {returning(tool.Result{}), agui.Text("")},
		"invalid UTF-8": {returning("a\xc3\x28\xff\xfeb"), agui.Text("a\uFFFD(\uFFFDb")},
	} {
		result, err := run(t, test.tool)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !result.Content.Equal(test.want) {
			t.Errorf("%s: got %v, want %v", name, result.Content, test.want)
		}
	}
}

func TestLongResultsAreCutVisibly(t *testing.T) {
	t.Parallel()
	// The limit falls into a rune of four bytes whatever the length of the mark.
	for shift := range 4 {
		long := strings.Repeat("x", shift) + strings.Repeat("😀", tool.MaxResultBytes/4)
		result, err := run(t, returning(long+"end"))
		if err != nil {
			t.Fatal(err)
		}
		text := result.Content.Text()
		if len(text) > tool.MaxResultBytes || len(text) < tool.MaxResultBytes-200 || !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
			t.Errorf("shift %d: %d bytes, valid %t", shift, len(text), utf8.ValidString(text))
		}
		shown, mark, _ := strings.Cut(text, "\n")
		if want := fmt.Sprintf("[cut: the result has %d bytes, which is more than are passed on]", len(long)+3); mark != want || !strings.HasPrefix(long, shown) {
			t.Errorf("shift %d: mark %q, want %q", shift, mark, want)
		}
	}
	exact := strings.Repeat("x", tool.MaxResultBytes)
	if result, _ := run(t, returning(exact)); result.Content.Text() != exact {
		t.Error("a result of exactly the limit was changed")
	}
}

func TestPartsThatDoNotFitAreLeftOut(t *testing.T) {
	t.Parallel()
	small := agui.DataPart(agui.PartImage, "image/png", "aGk=")
	large := agui.DataPart(agui.PartImage, "image/png", strings.Repeat("A", tool.MaxResultBytes))
	long := agui.TextPart(strings.Repeat("é", tool.MaxResultBytes))
	got, err := run(t, returning(tool.Result{Content: agui.Parts(agui.TextPart("a\xff"), large, small, long, long)}))
	if err != nil {
		t.Fatal(err)
	}
	parts := got.Content.PartList()
	if len(parts) != 4 || parts[0].Text != "a\uFFFD" || parts[1].Source.Value != "aGk=" || !strings.HasSuffix(parts[2].Text, "which is more than are passed on]") {
		t.Fatalf("%d parts: %.200v", len(parts), parts)
	}
	if want := "[cut: 2 of 5 parts did not fit into the result]"; parts[3].Text != want {
		t.Errorf("got %q, want %q", parts[3].Text, want)
	}
	encoded, jsonErr := json.Marshal(got.Content)
	if jsonErr != nil || len(encoded) > tool.MaxResultBytes+100 {
		t.Errorf("%d bytes, %v", len(encoded), jsonErr)
	}
	// A result passes more than one guard and is cut once.
	if again, err := run(t, returning(got)); err != nil || !again.Content.Equal(got.Content) {
		t.Errorf("second time: %v, changed %t", err, !again.Content.Equal(got.Content))
	}
}

func TestResultThatIsNoJSONIsAnError(t *testing.T) {
	t.Parallel()
	for _, tl := range []tool.Tool{
		returning(math.NaN()),
		returning(any(make(chan int))),
		returning(tool.Result{Content: agui.Parts(agui.ContentPart{Type: agui.PartImage})}),
	} {
		if _, err := run(t, tl); err == nil || err.Message != "The tool act failed." || err.Err == nil {
			t.Errorf("error %v", err)
		}
	}
}

type uncomparable struct{ _ []string }

func (uncomparable) Error() string { return "s3cret" }

func TestModelReadsOnlyWhatIsMeantForIt(t *testing.T) {
	t.Parallel()
	secret := &fs.PathError{Op: "open", Path: "/home/me/s3cret", Err: fs.ErrPermission}
	for name, test := range map[string]struct {
		err       error
		want      string
		retryable bool
	}{
		"any error":            {secret, "The tool act failed.", false},
		"uncomparable":         {uncomparable{}, "The tool act failed.", false},
		"meant for the model":  {&tool.Error{Message: "No such city.", Err: secret}, "No such city.", false},
		"with format":          {tool.Errorf("No city %q.", "X"), `No city "X".`, false},
		"wrapped":              {fmt.Errorf("s3cret: %w", &tool.Error{Message: "Away.", Retryable: true}), "Away.", true},
		"without a message":    {&tool.Error{Retryable: true, Err: secret}, "The tool act failed.", true},
		"own deadline":         {fmt.Errorf("s3cret: %w", context.DeadlineExceeded), "The tool act took too long and was stopped.", true},
		"own cancellation":     {context.Canceled, "The tool act was stopped.", false},
		"message not UTF-8":    {tool.Errorf("a\xffb"), "a\uFFFDb", false},
		"message without end":  {tool.Errorf("%s", strings.Repeat("é", tool.MaxErrorBytes)), strings.Repeat("é", (tool.MaxErrorBytes-6)/2) + " [cut]", false},
		"typed nil is no help": {(*fs.PathError)(nil), "The tool act failed.", false},
	} {
		_, err := run(t, failing(test.err))
		if err == nil || err.Message != test.want || err.Retryable != test.retryable {
			t.Errorf("%s: got %+v, want %q, retryable %t", name, err, test.want, test.retryable)
		}
	}
	// The cause is there for the log.
	if _, err := run(t, failing(secret)); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "/home/me") {
		t.Errorf("error %v, want the cause in it", err)
	}
}

// misbehaving is a tool that [tool.New] had no hand in.
type misbehaving struct {
	tool.Tool
	call func(ctx context.Context) (tool.Result, error)
}

func (m misbehaving) Spec() tool.Spec { return tool.Spec{Name: "foreign"} }
func (m misbehaving) Call(ctx context.Context, _ *tool.Call, _ json.RawMessage) (tool.Result, error) {
	return m.call(ctx)
}

func TestPanicsAreErrors(t *testing.T) {
	t.Parallel()
	for name, tl := range map[string]tool.Tool{
		"act":     doing(func(context.Context, *tool.Call) (string, error) { panic("s3cret") }),
		"act err": doing(func(context.Context, *tool.Call) (string, error) { panic(tool.Errorf("s3cret")) }),
		"act nil": doing(func(context.Context, *tool.Call) (string, error) { var p *item; return p.SKU, nil }),
		"foreign": misbehaving{call: func(context.Context) (tool.Result, error) { panic("s3cret") }},
	} {
		_, err := run(t, tl)
		who, _, _ := strings.Cut(name, " ")
		if err == nil || err.Message != "The tool "+who+" failed." || !strings.Contains(err.Err.Error(), "panic: ") || !strings.Contains(err.Err.Error(), "tool_test.go") {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

func TestRunGuardsForeignTools(t *testing.T) {
	t.Parallel()
	result, err := run(t, misbehaving{call: func(ctx context.Context) (tool.Result, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		call, ok := tool.FromContext(ctx)
		if !ok || call.ID() != "c1" {
			t.Errorf("call %v, %t", call, ok)
		}
		return tool.Text(strings.Repeat("\xff", tool.MaxResultBytes)), nil
	}})
	if err != nil || result.Content.Text() != "\uFFFD" {
		t.Errorf("%.80v, %v", result, err)
	}
	if _, err := run(t, misbehaving{call: func(context.Context) (tool.Result, error) { return tool.Result{}, errors.New("s3cret") }}); err.Message != "The tool foreign failed." {
		t.Errorf("error %v", err)
	}
}

func TestAttemptEndsWithItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		slow := tool.New(tool.Spec{Name: "slow", Timeout: time.Minute}, func(ctx context.Context, _ *tool.Call, _ none) (string, error) {
			<-ctx.Done()
			return "", errors.New("connection lost") // in words of its own
		})
		_, err := run(t, slow)
		if err == nil || err.Message != "The tool slow took too long and was stopped." || !err.Retryable || time.Since(start) != time.Minute {
			t.Errorf("after %s: %+v", time.Since(start), err)
		}
	})
}

func TestCancelledCallDoesNotBegin(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tool.Run(ctx, doing(func(context.Context, *tool.Call) (string, error) {
		t.Error("called")
		return "", nil
	}), nil, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestSpecHasItsDefaults(t *testing.T) {
	t.Parallel()
	got := returning("").Spec()
	if want := (tool.Spec{Name: "act", Timeout: tool.DefaultTimeout}); !cmp.Equal(got, want) || got.Effect.Repeatable() {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEffectSurvivesJSON(t *testing.T) {
	t.Parallel()
	for effect, want := range map[tool.Effect]string{
		tool.AtMostOnce: `"at_most_once"`, tool.ReadOnly: `"read_only"`, tool.Idempotent: `"idempotent"`,
	} {
		encoded, err := json.Marshal(effect)
		var back tool.Effect = "x"
		if err != nil || string(encoded) != want || json.Unmarshal(encoded, &back) != nil || back != effect {
			t.Errorf("%q: %s, %v, back %q", effect, encoded, err, back)
		}
	}
	for _, bad := range []string{`"twice"`, `"AtMostOnce"`, `3`} {
		effect := tool.ReadOnly
		if err := json.Unmarshal([]byte(bad), &effect); err == nil || effect != tool.ReadOnly {
			t.Errorf("%s: read as %q", bad, effect)
		}
	}
	if _, err := json.Marshal(tool.Effect("twice")); err == nil {
		t.Error("an unknown effect was written")
	}
}

func TestCallIsReachable(t *testing.T) {
	t.Parallel()
	info := tool.CallInfo{Tenant: "acme", Thread: "t", Run: "r", ID: "c", Attempt: 2}
	call := tool.NewCall(info)
	observed := doing(func(ctx context.Context, in *tool.Call) (string, error) {
		fromContext, ok := tool.FromContext(ctx)
		if in != call || !ok || fromContext != call {
			t.Errorf("got %v and %v", in, fromContext)
		}
		return fmt.Sprint(in.ID(), in.Attempt(), in.ThreadID(), in.RunID()), nil
	})
	result, err := observed.Call(t.Context(), call, nil)
	if want := fmt.Sprint("c", 2, "t", "r"); err != nil || result.Content.Text() != want {
		t.Errorf("got %v, %v, want %s", result, err, want)
	}
}

func TestToolCopesWithoutARun(t *testing.T) {
	t.Parallel()
	_, err := doing(func(ctx context.Context, call *tool.Call) (string, error) {
		if _, ok := tool.FromContext(ctx); ok || call.ID() != "" || call.Attempt() != 1 || call.IdempotencyKey() != "" || call.ThreadID() != "" || call.RunID() != "" {
			t.Errorf("call %+v outside of a run", call)
		}
		return "", nil
	}).Call(t.Context(), nil, nil)
	if err != nil {
		t.Error(err)
	}
}

func TestIdempotencyKeyNamesTheCallAndNotTheAttempt(t *testing.T) {
	t.Parallel()
	of := func(tenant string, thread agui.ThreadID, run agui.RunID, id agui.ToolCallID, attempt int) string {
		return tool.NewCall(tool.CallInfo{Tenant: tenant, Thread: thread, Run: run, ID: id, Attempt: attempt}).IdempotencyKey()
	}
	first := of("acme", "t", "r", "call_0", 1)
	if again := of("acme", "t", "r", "call_0", 7); again != first {
		t.Errorf("attempt 7 has %q, attempt 1 %q", again, first)
	}
	seen := map[string]bool{first: true}
	for _, other := range []string{
		of("other", "t", "r", "call_0", 1),
		of("acme", "t2", "r", "call_0", 1),
		of("acme", "t", "r2", "call_0", 1),
		of("acme", "t", "r", "call_1", 1),
		of("acme", "tr", "", "call_0", 1),
		of("acmet", "", "r", "call_0", 1),
	} {
		if seen[other] {
			t.Errorf("%q is the key of two calls", other)
		}
		seen[other] = true
		if len(other) > 64 || strings.Trim(other, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("key %q is not safe", other)
		}
	}
	if diff := cmp.Diff("kept", tool.NewCall(tool.CallInfo{ID: "c", IdempotencyKey: "kept"}).IdempotencyKey()); diff != "" {
		t.Error(diff)
	}
}
