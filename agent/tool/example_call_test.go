package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// show prints what a call reports: what a client would get.
func show(_ context.Context, e agui.Event) error {
	switch e := e.(type) {
	case *agui.ActivitySnapshot:
		fmt.Printf("%s: %s\n", e.ActivityType, e.Content)
	case *agui.ActivityDelta:
		fmt.Printf("%s: + %s\n", e.ActivityType, e.Patch[0].Value)
	case *agui.StateSnapshot:
		fmt.Printf("state: %s\n", e.Snapshot)
	case *agui.SubagentStarted:
		fmt.Printf("%s begins\n", e.Name)
	case *agui.TextMessageContent:
		fmt.Printf("%s: %s\n", *e.SubagentRunID, e.Delta)
	case *agui.SubagentFinished:
		fmt.Printf("it ends with %s\n", e.Outcome.Type)
	}
	return nil
}

// try runs one call of a tool, as a run would, and prints the result.
func try(t tool.Tool, info tool.CallInfo, args string) {
	info.ID, info.Sink = "c1", show
	result, err := tool.Run(context.Background(), t, tool.NewCall(info), json.RawMessage(args))
	if shown, ok := errors.AsType[*tool.Error](err); ok {
		fmt.Println("error:", shown.Message)
		return
	}
	for _, p := range result.Content.PartList() {
		if p.Type == agui.PartText {
			fmt.Println("result:", p.Text)
		} else {
			fmt.Println("result:", p.Type, p.Source.Value)
		}
	}
}

func ExampleNewStream() {
	type search struct {
		Words string `json:"words"`
	}
	find := tool.NewStream(tool.Spec{
		Name: "find", Description: "Search the notes.", Effect: tool.ReadOnly, Stream: tool.Limits{Chunks: 100},
	}, func(_ context.Context, _ *tool.Call, in search) iter.Seq[tool.Chunk] {
		return func(yield func(tool.Chunk) bool) {
			if in.Words == "" {
				yield(tool.Failed(tool.Errorf("There is nothing to search for.")))
				return
			}
			for _, hit := range []string{"a.md", "b.md"} {
				if !yield(tool.Partial(hit)) {
					return
				}
			}
			yield(tool.Complete("2 notes"))
		}
	})
	try(find, tool.CallInfo{}, `{"words":"cats"}`)
	try(find, tool.CallInfo{}, `{"words":""}`)
	// Output:
	// tool_partial: {"toolCallId":"c1","chunks":[]}
	// tool_partial: + {"index":0,"data":"a.md"}
	// tool_partial: + {"index":1,"data":"b.md"}
	// result: 2 notes
	// error: There is nothing to search for.
}

func ExampleCall_Progress() {
	copying := tool.New(tool.Spec{Name: "copy"}, func(ctx context.Context, call *tool.Call, _ struct{}) (string, error) {
		for percent := range 101 {
			if err := call.Progress(ctx, float64(percent), "copying"); err != nil {
				return "", err
			}
		}
		return "copied", nil
	})
	// All of it takes less than the interval: the first is shown, and the last.
	try(copying, tool.CallInfo{}, ``)
	// Output:
	// tool_progress: {"toolCallId":"c1","percent":0,"message":"copying"}
	// tool_progress: {"toolCallId":"c1","percent":100,"message":"copying"}
	// result: copied
}

func ExampleCall_Data() {
	type plan struct {
		Steps []string `json:"steps"`
		Done  int      `json:"done"`
	}
	work := tool.New(tool.Spec{Name: "work"}, func(ctx context.Context, call *tool.Call, _ struct{}) (string, error) {
		p := plan{Steps: []string{"look", "think"}}
		for p.Done = range p.Steps {
			if err := call.Data(ctx, "plan-1", "plan", p); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	try(work, tool.CallInfo{}, ``)
	// Output:
	// plan: {"steps":["look","think"],"done":0}
	// plan: {"steps":["look","think"],"done":1}
	// result: done
}

func ExampleCall_Preliminary() {
	draft := tool.New(tool.Spec{Name: "draft"}, func(ctx context.Context, call *tool.Call, _ struct{}) (string, error) {
		if err := call.Preliminary(ctx, "Dear"); err != nil {
			return "", err
		}
		return "Dear Ms. Miller", nil
	})
	try(draft, tool.CallInfo{}, ``)
	// Output:
	// tool_output: {"toolCallId":"c1","output":"Dear"}
	// result: Dear Ms. Miller
}

func ExampleCall_Content() {
	screenshot := tool.New(tool.Spec{Name: "screenshot", Effect: tool.ReadOnly}, func(ctx context.Context, call *tool.Call, _ struct{}) (string, error) {
		return "The screen, as it is now.", call.Content(ctx, "image/png", "https://example.com/screen.png")
	})
	try(screenshot, tool.CallInfo{}, ``)
	// Output:
	// tool_file: {"toolCallId":"c1","mediaType":"image/png","url":"https://example.com/screen.png","forModel":true}
	// result: The screen, as it is now.
	// result: image https://example.com/screen.png
}

func ExampleState() {
	type board struct {
		Tasks []string `json:"tasks"`
	}
	type task struct {
		Title string `json:"title"`
	}
	add := tool.New(tool.Spec{Name: "add_task", MutatesState: true}, func(ctx context.Context, call *tool.Call, in task) (string, error) {
		state, err := tool.State[board](call)
		if err != nil {
			return "", err
		}
		err = state.Update(ctx, func(b *board) { b.Tasks = append(b.Tasks, in.Title) })
		return "added", err
	})
	lease := &tool.Lease{Document: json.RawMessage(`{"tasks":["sleep"]}`), Write: true}
	try(add, tool.CallInfo{State: lease}, `{"title":"buy milk"}`)
	fmt.Println("the run has", string(lease.Document))
	// Output:
	// state: {"tasks":["sleep","buy milk"]}
	// result: added
	// the run has {"tasks":["sleep","buy milk"]}
}

func ExampleCall_Subagent() {
	review := tool.New(tool.Spec{Name: "review"}, func(ctx context.Context, call *tool.Call, _ struct{}) (text string, err error) {
		reviewer, err := call.Subagent(ctx, "reviewer", emit.SubagentOptions{})
		if err != nil {
			return "", err
		}
		defer reviewer.CloseErr(&err)
		_, err = reviewer.Say("Looks good to me.")
		return "approved", err
	})
	try(review, tool.CallInfo{}, ``)
	// Output:
	// reviewer begins
	// c1-sub-1: Looks good to me.
	// it ends with success
	// result: approved
}

// step is shared by tools, and by code that knows nothing of calls.
func step(ctx context.Context, name string) {
	if call, ok := tool.FromContext(ctx); ok {
		_ = call.Preliminary(ctx, name+"…") // who doesn't see it, doesn't
	}
}

func ExampleFromContext() {
	cook := tool.New(tool.Spec{Name: "cook"}, func(ctx context.Context, _ *tool.Call, _ struct{}) (string, error) {
		step(ctx, "boiling")
		return "soup", nil
	})
	try(cook, tool.CallInfo{}, ``)
	step(context.Background(), "boiling") // outside of a run
	// Output:
	// tool_output: {"toolCallId":"c1","output":"boiling…"}
	// result: soup
}
