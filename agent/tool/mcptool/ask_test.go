package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/mcptool"
	"github.com/holdfast-dev/holdfast/agui"
)

// legacy is the last version of MCP in which servers wait for answers.
const legacy = "2025-11-25"

// form is what the tool ask wants to know first.
var form = map[string]any{
	"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": []string{"who"},
	"properties": map[string]any{"who": map[string]any{"type": "string"}, "count": map[string]any{"type": "integer"}},
}

// addAsking adds tools that ask: one that returns its questions, and those that wait for the answer.
func addAsking(server *mcp.Server) {
	note := func(text string) {
		f, err := os.OpenFile(os.Getenv(envEffects), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			panic(err)
		}
	}
	mcp.AddTool(server, &mcp.Tool{Name: "ask"}, func(_ context.Context, req *mcp.CallToolRequest, in request) (*mcp.CallToolResult, any, error) {
		note("ask " + req.Params.RequestState)
		asks := func(state string, q mcp.InputRequestMap) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{InputRequests: q, RequestState: state}, nil, nil
		}
		switch req.Params.RequestState {
		case "":
			switch in.Text {
			case "model":
				//lint:ignore SA1019 servers that ask models are still there
				return asks("1", mcp.InputRequestMap{"m": &mcp.CreateMessageWithToolsParams{MaxTokens: 1}})
			case "busy":
				return asks("", mcp.InputRequestMap{})
			case "nested":
				return asks("1", mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "What?", RequestedSchema: map[string]any{"type": "array"}}})
			case "script":
				return asks("1", mcp.InputRequestMap{"q": &mcp.ElicitParams{Mode: "url", Message: "Go.", URL: "javascript:alert(1)", ElicitationID: "e"}})
			}
			return asks("1", mcp.InputRequestMap{
				"a": &mcp.ElicitParams{Message: "Who?", RequestedSchema: form},
				"b": &mcp.ElicitParams{Mode: "url", Message: "Pay there.", URL: "https://example.com/pay?id=1", ElicitationID: "e1"},
			})
		case "1":
			return asks("2 "+shown(req.Params.InputResponses), mcp.InputRequestMap{"c": &mcp.ElicitParams{Message: "Really?"}})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{
			Text: in.Text + ": " + req.Params.RequestState + "; " + shown(req.Params.InputResponses),
		}}}, nil, nil
	})
	confirm := func(ctx context.Context, req *mcp.CallToolRequest, in request) (*mcp.CallToolResult, any, error) {
		note("confirm " + in.Text)
		if in.Wait {
			meet(ctx, note)
		}
		r, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Really " + in.Text + "?", RequestedSchema: form})
		if err != nil {
			return nil, nil, err
		}
		note("confirmed " + in.Text)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text + ": " + shown(mcp.InputResponseMap{"a": r})}}}, nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "confirm", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, confirm)
	mcp.AddTool(server, &mcp.Tool{Name: "confirm_once"}, confirm)
}

// meeting is where the first two calls wait for each other.
var meeting struct {
	mu    sync.Mutex
	here  int
	both  chan struct{}
	never bool
}

// meet returns when another call is here, and at once when two have met before, in this process or another.
func meet(ctx context.Context, note func(string)) {
	m := &meeting
	m.mu.Lock()
	if m.both == nil {
		m.both = make(chan struct{})
		before, err := os.ReadFile(os.Getenv(envEffects))
		m.never = err == nil && strings.Contains(string(before), "met\n")
	}
	m.here++
	switch {
	case m.never:
		m.mu.Unlock()
		return
	case m.here == 2:
		note("met")
		close(m.both)
	}
	m.mu.Unlock()
	select {
	case <-m.both:
	case <-ctx.Done():
	}
}

func shown(responses mcp.InputResponseMap) string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(responses)) {
		r := responses[id].(*mcp.ElicitResult)
		content, _ := json.Marshal(r.Content) // of JSON
		list = append(list, fmt.Sprintf("%s %s %s", id, r.Action, content))
	}
	return strings.Join(list, ", ")
}

// pauses calls a tool as a run does that pauses at each question, each time by another worker, and returns what was asked.
// Answers that are missing leave the last call suspended.
func pauses(t *testing.T, worker func() tool.Tool, args string, answers ...agui.ResumeEntry) (result tool.Result, asked []tool.Ask, err *tool.Error) {
	t.Helper()
	info := tool.CallInfo{Thread: "t", Run: "r", ID: "c1"}
	for n := 0; ; n++ {
		call := tool.NewCall(info)
		result, err = run(t, worker(), call, args)
		ask, memo, waits := call.Suspended()
		if !waits {
			return result, asked, err
		}
		if !errors.Is(err, tool.ErrSuspended) {
			t.Fatalf("a call that waits ended with %v", err)
		}
		asked = append(asked, ask)
		if n == len(answers) {
			return result, asked, err
		}
		info.Asked, info.Memo, info.Entry = append(info.Asked, tool.Asked{Ask: ask, Answer: answers[n]}), memo, n+2
	}
}

func resolved(payload string) agui.ResumeEntry {
	return agui.ResumeEntry{Status: agui.ResumeResolved, Payload: json.RawMessage(payload)}
}

var cancelled = agui.ResumeEntry{Status: agui.ResumeCancelled}

// A server that asks is asked once for each of its questions, whatever dies while a person thinks.
func TestServerAsks(t *testing.T) {
	t.Parallel()
	stateless := func(effects string) func() mcp.Transport {
		return overHTTP(listen(t, "127.0.0.1:0", effects, envStateless+"=1").address)
	}
	for how, transport := range map[string]func(string) func() mcp.Transport{"stdio": stdio, "http": stateless} {
		for name, test := range map[string]struct {
			answers []agui.ResumeEntry
			want    string
		}{
			"accepted":  {[]agui.ResumeEntry{resolved(`{"who":"ann","count":3}`), resolved(`{"approved":true}`), resolved(`{}`)}, `a accept {"count":3,"who":"ann"}, b accept null; c accept null`},
			"declined":  {[]agui.ResumeEntry{resolved(`{"action":"decline"}`), resolved(`{"approved":false}`), resolved(`{"action":"decline"}`)}, `a decline null, b decline null; c decline null`},
			"cancelled": {[]agui.ResumeEntry{cancelled, cancelled, cancelled}, `a cancel null, b cancel null; c cancel null`},
		} {
			t.Run(how+" "+name, func(t *testing.T) {
				t.Parallel()
				worker := func() tool.Tool { return newRig(t, transport, mcptool.Options{}).tool("ask") }
				result, asked, err := pauses(t, worker, `{"text":"x"}`, test.answers...)
				if err != nil || result.Content.Text() != "x: 2 "+test.want {
					t.Errorf("%q, %v", result.Content.Text(), err)
				}
				want := []tool.Ask{
					{Kind: tool.AskInput, Message: "shop asks: Who?"},
					{Kind: tool.AskConsent, Message: "shop asks: Pay there.\nhttps://example.com/pay?id=1"},
					{Kind: tool.AskInput, Message: "shop asks: Really?"},
				}
				var schema struct{ AnyOf []map[string]any }
				if err := json.Unmarshal(asked[0].Schema, &schema); err != nil || len(schema.AnyOf) != 2 || schema.AnyOf[0]["$schema"] != nil || schema.AnyOf[0]["properties"] == nil {
					t.Errorf("form %s, %v", asked[0].Schema, err)
				}
				for i := range asked {
					asked[i].Schema = nil
				}
				if diff := cmp.Diff(want, asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Each question reaches the server once: what it has asked is not asked again, only gone on with.
func TestServerIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, stdio, mcptool.Options{})
	ask := r.tool("ask")
	_, asked, err := pauses(t, func() tool.Tool { return ask }, `{"text":"x"}`, resolved(`{"who":"ann"}`), resolved(`{"approved":true}`), resolved(`{}`))
	if got := r.happened(); err != nil || len(asked) != 3 || got != "ask \nask 1\nask 2 a accept {\"who\":\"ann\"}, b accept null\n" {
		t.Errorf("%v, asked %d, the server was called:\n%s", err, len(asked), got)
	}
}

func TestServerAsksWhatNobodyCanAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, stdio, mcptool.Options{})
	for text, want := range map[string]struct {
		says      string
		retryable bool
	}{
		"model": {"asks for something else", false}, "busy": {"busy", true}, "nested": {"form that can't be understood", false}, "script": {"none of the web", false},
	} {
		_, asked, err := pauses(t, func() tool.Tool { return r.tool("ask") }, `{"text":"`+text+`"}`)
		if err == nil || len(asked) > 0 || err.Retryable != want.retryable || !strings.Contains(err.Message, want.says) {
			t.Errorf("%s: asked %v, %v", text, asked, err)
		}
	}
	// Outside of a run nobody is there.
	if got, err := run(t, r.tool("ask"), nil, `{"text":"x"}`); err != nil || got.Content.Text() != "x: 2 a cancel null, b cancel null; c cancel null" {
		t.Errorf("%q, %v", got.Content.Text(), err)
	}
}

// older is a transport to a process that speaks the version of MCP in which servers wait for answers.
func older(effects string) func() mcp.Transport {
	inner := stdio(effects)
	return func() mcp.Transport {
		transport := inner().(*mcp.CommandTransport)
		transport.Command.Env = append(transport.Command.Env, envVersion+"="+legacy)
		return transport
	}
}

// A server of an older MCP, which waits for the answer, is called again when it is there, if that does no harm.
func TestOlderServerAsks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer agui.ResumeEntry
		want   string
	}{
		"accepted": {resolved(`{"who":"ann"}`), `x: a accept {"who":"ann"}`}, "declined": {resolved(`{"action":"decline"}`), `x: a decline null`}, "cancelled": {cancelled, `x: a cancel null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, older, mcptool.Options{})
			confirm := r.tool("confirm")
			result, asked, err := pauses(t, func() tool.Tool { return confirm }, `{"text":"x"}`, test.answer)
			if err != nil || result.Content.Text() != test.want || len(asked) != 1 || asked[0].Message != "shop asks: Really x?" {
				t.Errorf("%q, %v, asked %v", result.Content.Text(), err, asked)
			}
			if got := r.happened(); got != "confirm x\nconfirm x\nconfirmed x\n" {
				t.Errorf("the server was called:\n%s", got)
			}
			if result, err := run(t, r.tool("peek"), nil, `{"text":"y"}`); err != nil || result.Content.Text() != `{"text":"y"}` {
				t.Errorf("behind it: %v, %v", result, err)
			}
		})
	}
	t.Run("never twice", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, older, mcptool.Options{})
		result, asked, err := pauses(t, func() tool.Tool { return r.tool("confirm_once") }, `{"text":"x"}`)
		if err != nil || result.Content.Text() != "x: a cancel null" || len(asked) > 0 || r.happened() != "confirm x\nconfirmed x\n" {
			t.Errorf("%q, %v, asked %v, the server was called:\n%s", result.Content.Text(), err, asked, r.happened())
		}
	})
}

// Two calls of one connection ask at the same time, and an older server does not say which is which: each is asked for once,
// and each gets its own answer.
func TestOlderServerAsksForTwoCallsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, older, mcptool.Options{})
	confirm := r.tool("confirm")
	var all sync.WaitGroup
	for _, who := range []string{"ann", "bob"} {
		all.Go(func() {
			result, asked, err := pauses(t, func() tool.Tool { return confirm }, `{"text":"`+who+`","wait":true}`, resolved(`{"who":"`+who+`"}`))
			if want := who + `: a accept {"who":"` + who + `"}`; err != nil || result.Content.Text() != want || len(asked) != 1 || asked[0].Message != "shop asks: Really "+who+"?" {
				t.Errorf("%s: %q, %v, asked %v", who, result.Content.Text(), err, asked)
			}
		})
	}
	all.Wait()
}
