package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

type sumInput struct {
	Numbers []int64 `json:"numbers" jsonschema:"what to add up"`
}

func ExampleNew() {
	sum := tool.New(tool.Spec{
		Name:        "sum",
		Description: "Add up whole numbers.",
		Effect:      tool.ReadOnly,
	}, func(_ context.Context, _ *tool.Call, in sumInput) (int64, error) {
		if len(in.Numbers) == 0 {
			return 0, tool.Errorf("There is nothing to add up.")
		}
		var total int64
		for _, n := range in.Numbers {
			total += n
		}
		return total, nil
	})

	fmt.Println(string(sum.Definition().Parameters))
	for _, args := range []string{`{"numbers":[40,2]}`, `{"numbers":[]}`, `{"number":42}`} {
		result, err := sum.Call(context.Background(), nil, json.RawMessage(args))
		if shown, ok := errors.AsType[*tool.Error](err); ok {
			fmt.Println(shown.Message)
			continue
		}
		fmt.Println(result.Content.Text())
	}
	// Output:
	// {"type":"object","properties":{"numbers":{"type":"array","items":{"type":"integer"},"description":"what to add up"}},"required":["numbers"],"additionalProperties":false}
	// 42
	// There is nothing to add up.
	// arguments: missing required field "numbers"; unknown field "number" (it has "numbers")
}
