package mcptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/mcptool"
	"github.com/holdfast-dev/holdfast/agui"
)

// rig is a server of the test and the file in which its effects are.
type rig struct {
	*mcptool.Server
	t       *testing.T
	effects string
}

func newRig(t *testing.T, transport func(effects string) func() mcp.Transport, opt mcptool.Options) *rig {
	t.Helper()
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	effects := filepath.Join(t.TempDir(), "effects")
	r := &rig{Server: mcptool.New("shop", transport(effects), opt), t: t, effects: effects}
	t.Cleanup(func() { _ = r.Close() }) // the process may be dead
	return r
}

// tool is the tool of that name.
func (r *rig) tool(name string) tool.Tool {
	r.t.Helper()
	list, err := r.List(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(t tool.Tool) bool { return t.Spec().Name == name })
	if i < 0 {
		r.t.Fatalf("there is no tool %s", name)
	}
	return list[i]
}

func run(t *testing.T, tl tool.Tool, call *tool.Call, args string) (tool.Result, *tool.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := tool.Run(ctx, tl, call, json.RawMessage(args))
	if err == nil {
		return result, nil
	}
	shown, ok := errors.AsType[*tool.Error](err)
	if !ok {
		t.Fatalf("error %T %v, want a *tool.Error", err, err)
	}
	return result, shown
}

// happened are the effects.
func (r *rig) happened() string {
	r.t.Helper()
	data, err := os.ReadFile(r.effects)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	return string(data)
}

func TestListMapsHintsAndNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, stdio, mcptool.Options{Prefix: "x_", Timeout: time.Minute, Effects: map[string]tool.Effect{"fail": tool.ReadOnly}})
	list, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range list {
		spec, told := l.Spec(), l.Definition()
		got = append(got, fmt.Sprintf("%s %s %q %s", spec.Name, spec.Effect, spec.Description, spec.Timeout))
		var schema struct {
			Type       string
			Properties map[string]any
		}
		if err := json.Unmarshal(told.Parameters, &schema); err != nil || schema.Type != "object" || schema.Properties == nil || told.Name != spec.Name {
			t.Errorf("%s: %s, %v", told.Name, told.Parameters, err)
		}
	}
	want := []string{
		`x_ask at_most_once "" 1m0s`, `x_confirm idempotent "" 1m0s`, `x_confirm_once at_most_once "" 1m0s`, `x_fail read_only "" 1m0s`, `x_grow at_most_once "" 1m0s`, `x_notes_put idempotent "Write down." 1m0s`,
		`x_pay at_most_once "Pay a bill." 1m0s`, `x_peek read_only "Look." 1m0s`, `x_picture read_only "" 1m0s`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// both runs a test over both transports.
func both(t *testing.T, test func(t *testing.T, transport func(effects string) func() mcp.Transport)) {
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		test(t, stdio)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		test(t, func(effects string) func() mcp.Transport { return overHTTP(listen(t, "127.0.0.1:0", effects).address) })
	})
}

func TestResults(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, transport func(string) func() mcp.Transport) {
		r := newRig(t, transport, mcptool.Options{})
		call := tool.NewCall(tool.CallInfo{ID: "c1", IdempotencyKey: "key-1"})
		if got, err := run(t, r.tool("peek"), call, `{"text":"<a>"}`); err != nil || got.Content.Text() != `{"key":"key-1","text":"<a>"}` {
			t.Errorf("%q, %v", got.Content.Text(), err)
		}
		if got, err := run(t, r.tool("peek"), nil, ``); err != nil || got.Content.Text() != `{"text":""}` {
			t.Errorf("%q, %v", got.Content.Text(), err)
		}
		document := agui.URLPart(agui.PartDocument, "https://example.com/cat.pdf")
		document.Source.MimeType = new("application/pdf")
		want := agui.Parts(agui.TextPart(`{"cats":1}`), agui.TextPart("a cat"), agui.DataPart(agui.PartImage, "image/png", "cG5n"), document,
			agui.TextPart("Resource cats://1 tom"), agui.TextPart("more"), agui.DataPart(agui.PartAudio, "audio/wav", "bWlhdQ=="))
		if got, err := run(t, r.tool("picture"), nil, `{}`); err != nil || !got.Content.Equal(want) {
			t.Errorf("%v, %v", got.Content, err)
		}
		for text, want := range map[string]string{"No such cat.": "No such cat.", "open /etc/cats/1": "open [redacted]", "": "The tool failed and did not say why."} {
			if _, err := run(t, r.tool("fail"), nil, fmt.Sprintf(`{"text":%q}`, text)); err == nil || err.Message != want || err.Retryable {
				t.Errorf("%q is shown as %v", text, err)
			}
		}
		if _, err := run(t, r.tool("peek"), nil, `{"txt":"x"}`); err == nil || !strings.Contains(err.Message, "txt") {
			t.Errorf("bad arguments: %v", err)
		}
		for _, bad := range []string{`[]`, `{"text`, `null`} {
			if _, err := run(t, r.tool("peek"), nil, bad); !errors.Is(err, tool.ErrArguments) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}

func TestProgressAndCancellation(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, transport func(string) func() mcp.Transport) {
		r := newRig(t, transport, mcptool.Options{})
		peek := r.tool("peek")
		reported := make(chan string, 10)
		call := tool.NewCall(tool.CallInfo{ID: "c1", Sink: func(_ context.Context, e agui.Event) error {
			reported <- string(e.(*agui.ActivitySnapshot).Content)
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := tool.Run(ctx, peek, call, json.RawMessage(`{"text":"a","wait":true}`))
			done <- err
		}()
		if got := <-reported; got != `{"toolCallId":"c1","percent":25,"message":"waiting"}` {
			t.Errorf("progress %s", got)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		// The connection is as good as before.
		if got, err := run(t, peek, nil, `{"text":"b"}`); err != nil || got.Content.Text() != `{"text":"b"}` {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// The process ends between the effect of a call and its answer. Only a tool that may be called again is.
func TestServerDiesInACall(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"peek": "a\na\n", "notes_put": "a\na\n", "pay": "a\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, stdio, mcptool.Options{})
			result, err := run(t, r.tool(name), nil, `{"text":"a","die":true}`)
			if got := r.happened(); got != want {
				t.Errorf("effects %q, want %q", got, want)
			}
			if name != "pay" {
				if err != nil || result.Content.Text() != `{"text":"a"}` {
					t.Errorf("%v, %v", result, err)
				}
				return
			}
			if err == nil || err.Retryable || !strings.Contains(err.Message, "may or may not have taken effect") {
				t.Errorf("%v, %v", result, err)
			}
			if got, err := run(t, r.tool(name), nil, `{"text":"b"}`); err != nil || got.Content.Text() != `{"text":"b"}` {
				t.Errorf("the next call: %v, %v", got, err)
			}
		})
	}
}

// The stream of a call breaks while the server goes on: the SDK's client would wait for ever.
func TestStreamBreaksInACall(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"peek": true, "pay": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p *proxy
			r := newRig(t, func(effects string) func() mcp.Transport {
				p = newProxy(t, listen(t, "127.0.0.1:0", effects).address)
				return overHTTP(p.address())
			}, mcptool.Options{})
			tl := r.tool(name)
			broken := 0
			call := tool.NewCall(tool.CallInfo{ID: "c1", Sink: func(context.Context, agui.Event) error {
				broken++
				p.cut()
				return nil
			}})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := tool.Run(ctx, tl, call, json.RawMessage(`{"text":"a","wait":true}`))
			shown, ok := errors.AsType[*tool.Error](err)
			if !ok || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v", err)
			}
			if again != shown.Retryable || again != (r.happened() == "a\na\n") {
				t.Errorf("effects %q, retryable %t: %s", r.happened(), shown.Retryable, shown.Message)
			}
		})
	}
}

// A server that was started again knows nothing of the session; nothing has been done then, so that every call is made again.
func TestServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	var p *process
	var where string
	r := newRig(t, func(effects string) func() mcp.Transport {
		p, where = listen(t, "127.0.0.1:0", effects), effects
		return overHTTP(p.address)
	}, mcptool.Options{})
	pay := r.tool("pay")
	if _, err := run(t, pay, nil, `{"text":"a"}`); err != nil {
		t.Fatal(err)
	}
	p.kill()
	if _, err := run(t, pay, nil, `{"text":"b"}`); err == nil || !strings.Contains(err.Message, "server shop") {
		t.Errorf("got %v", err)
	}
	listen(t, p.address, where)
	if _, err := run(t, pay, nil, `{"text":"c"}`); err != nil {
		t.Fatal(err)
	}
	if got := r.happened(); got != "a\nc\n" {
		t.Errorf("effects %q", got)
	}
}

func TestServerThatIsAway(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := listen(t, "127.0.0.1:0", "")
	p.kill() // its address is free again
	r := newRig(t, func(string) func() mcp.Transport { return overHTTP(p.address) }, mcptool.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if _, err := r.List(t.Context()); err == nil {
		t.Error("it was listed")
	}
	tools := r.Tools(t.Context())
	if len(tools) != 1 || tools[0].Spec().Name != "shop_server" || tools[0].Spec().Effect != tool.AtMostOnce {
		t.Fatalf("%v", tools)
	}
	if !strings.Contains(log.String(), "the server is away") {
		t.Errorf("the log says %s", log.String())
	}
	for _, args := range []string{`{}`, `{"tool":"peek","arguments":{"text":"a"}}`} {
		if _, err := run(t, tools[0], nil, args); err == nil || !err.Retryable || err.Message != "The server shop, which has this tool, can't be reached at the moment. Nothing was done." {
			t.Errorf("%s: %v", args, err)
		}
	}
	listen(t, p.address, r.effects)
	if got, err := run(t, tools[0], nil, `{}`); err != nil || !strings.Contains(got.Content.Text(), `"name":"notes.put"`) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := run(t, tools[0], nil, `{"tool":"notes.put","arguments":{"text":"a"}}`); err != nil || got.Content.Text() != `{"text":"a"}` {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := run(t, tools[0], nil, `{"tool":"picture"}`); err != nil || !got.Content.IsParts() {
		t.Errorf("%v, %v", got, err)
	}
	if len(r.Tools(t.Context())) < 5 {
		t.Error("the tools are not there again")
	}
}

func TestProgramThatDoesNotExist(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(string) func() mcp.Transport {
		return func() mcp.Transport { return &mcp.CommandTransport{Command: command("/does/not/exist")} }
	}, mcptool.Options{})
	tools := r.Tools(t.Context())
	if _, err := run(t, tools[0], nil, `{}`); err == nil || strings.Contains(err.Message, "exist") {
		t.Errorf("got %v", err)
	}
}

func TestListChanges(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, transport func(string) func() mcp.Transport) {
		changed := make(chan struct{}, 10)
		r := newRig(t, transport, mcptool.Options{OnChange: func() { changed <- struct{}{} }})
		pay := r.tool("pay")
		if got, err := run(t, r.tool("grow"), nil, `{}`); err != nil {
			t.Fatal(got, err)
		}
		select {
		case <-changed:
		case <-time.After(patience):
			t.Fatal("nobody was told")
		}
		if _, err := run(t, r.tool("extra"), nil, `{}`); err != nil {
			t.Error(err)
		}
		if _, err := run(t, pay, nil, `{"text":"a"}`); err == nil || err.Retryable || !strings.HasPrefix(err.Message, "The server shop refused the call of pay: ") {
			t.Errorf("a tool that is gone: %v", err)
		}
	})
}

func TestClosedServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, stdio, mcptool.Options{})
	peek := r.tool("peek")
	if err := r.Close(); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, err := run(t, peek, nil, `{}`); !errors.Is(err, mcptool.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := r.List(t.Context()); !errors.Is(err, mcptool.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
