package tool_test

import (
	"context"
	"iter"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// encoding is what a lane does with an event before it waits for others.
func encoding(_ context.Context, e agui.Event) error {
	_, err := agui.Encode(e)
	return err
}

// What one event costs a tool, apart from the log.
func BenchmarkReport(b *testing.B) {
	for name, report := range map[string]func(ctx context.Context, call *tool.Call) error{
		"Progress":    func(ctx context.Context, call *tool.Call) error { return call.Progress(ctx, 1, "on it") },
		"Preliminary": func(ctx context.Context, call *tool.Call) error { return call.Preliminary(ctx, "a draft") },
		"Partial":     func(ctx context.Context, call *tool.Call) error { return call.Partial(ctx, "a row") },
		"Data": func(ctx context.Context, call *tool.Call) error {
			return call.Data(ctx, "plan", "plan", map[string]int{"n": 1})
		},
		"Emit": func(ctx context.Context, call *tool.Call) error {
			return call.Emit(ctx, &agui.Custom{Name: "beep", Value: []byte(`1`)})
		},
	} {
		b.Run(name, func(b *testing.B) {
			call := tool.NewCall(tool.CallInfo{ID: "c1", Sink: encoding})
			b.ReportAllocs()
			for b.Loop() {
				if err := report(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("Subagent text", func(b *testing.B) {
		call := tool.NewCall(tool.CallInfo{ID: "c1", Sink: encoding})
		sub, err := call.Subagent(b.Context(), "reader", emit.SubagentOptions{})
		if err != nil {
			b.Fatal(err)
		}
		m, err := sub.Message()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := m.Content("word "); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A tool that reports 10,000 partials, as a stream and by its call.
func BenchmarkTenThousandPartials(b *testing.B) {
	const n = 10_000
	for name, t := range map[string]tool.Tool{
		"stream": tool.NewStream(tool.Spec{Name: "s", Stream: tool.Limits{Chunks: n + 1}}, func(context.Context, *tool.Call, none) iter.Seq[tool.Chunk] {
			return func(yield func(tool.Chunk) bool) {
				for i := range n {
					if !yield(tool.Partial(i)) {
						return
					}
				}
				yield(tool.Complete("done"))
			}
		}),
		"call": tool.New(tool.Spec{Name: "c"}, func(ctx context.Context, call *tool.Call, _ none) (string, error) {
			for i := range n {
				if err := call.Partial(ctx, i); err != nil {
					return "", err
				}
			}
			return "done", nil
		}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tool.Run(b.Context(), t, tool.NewCall(tool.CallInfo{ID: "c1", Sink: encoding}), nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
		})
	}
}
