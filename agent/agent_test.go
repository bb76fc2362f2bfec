package agent_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

type noInput struct{}

func named(name string, spec tool.Spec) tool.Tool {
	spec.Name = name
	return tool.New(spec, func(context.Context, *tool.Call, noInput) (string, error) { return "", nil })
}

// foreign is a tool that [tool.New] had no hand in.
type foreign struct {
	tool.Tool
	spec       tool.Spec
	definition agui.Tool
}

func (f foreign) Spec() tool.Spec       { return f.spec }
func (f foreign) Definition() agui.Tool { return f.definition }

func valid() agent.Agent {
	return agent.Agent{
		Name:         "orders-2",
		Description:  "Looks up <orders> & refunds.",
		Instructions: "Be brief.",
		Model:        "fast",
		Tools: []tool.Tool{
			named("zebra", tool.Spec{Effect: tool.ReadOnly, Timeout: time.Minute}),
			named("ant", tool.Spec{Description: "a<b"}),
			foreign{
				spec:       tool.Spec{Name: "far", Effect: tool.Idempotent},
				definition: agui.Tool{Name: "far", Parameters: json.RawMessage("{ \"type\": \"object\",\n \"description\": \"x>y\" }")},
			},
		},
	}
}

func TestValidAgentIsAccepted(t *testing.T) {
	t.Parallel()
	if err := valid().Validate(); err != nil {
		t.Error(err)
	}
	if err := (agent.Agent{Name: "bare"}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesFieldAndLimit(t *testing.T) {
	t.Parallel()
	object := json.RawMessage(`{"type":"object"}`)
	for name, test := range map[string]struct {
		change func(*agent.Agent)
		want   string
	}{
		"no name":           {func(a *agent.Agent) { a.Name = "" }, `agent "": name: want 1 to 64 characters out of a-z, 0-9 and -`},
		"name in capitals":  {func(a *agent.Agent) { a.Name = "Orders" }, `agent "Orders": name: want 1 to 64 characters out of a-z, 0-9 and -`},
		"name with newline": {func(a *agent.Agent) { a.Name = "a\n" }, `agent "a\n": name: want 1 to 64 characters out of a-z, 0-9 and -`},
		"long name":         {func(a *agent.Agent) { a.Name = strings.Repeat("a", 65) }, `agent "` + strings.Repeat("a", 65) + `": name: want 1 to 64 characters out of a-z, 0-9 and -`},
		"long description": {
			func(a *agent.Agent) { a.Description = strings.Repeat("x", agent.MaxDescriptionBytes+1) },
			`agent "orders-2": description: 4097 bytes, at most 4096 are allowed`,
		},
		"instructions": {func(a *agent.Agent) { a.Instructions = "\xff" }, `agent "orders-2": instructions: not valid UTF-8`},
		"hidden tools": {func(a *agent.Agent) { a.View.HiddenTools = []string{"a b"} }, `agent "orders-2": view.hiddenTools[0]: "a b" is no name of a tool`},
		"promotion": {
			func(a *agent.Agent) { a.View.StateFrom = []agent.Promotion{{}} },
			`agent "orders-2": view.stateFrom[0].tool: "" is no name of a tool`,
		},
		"visibility":  {func(a *agent.Agent) { a.View.Subagents = "loud" }, `agent "orders-2": view.subagents: want "", "inline" or "hidden"`},
		"no function": {func(a *agent.Agent) { a.Run = agent.Func[int](nil) }, `agent "orders-2": run: no function`},
		"turns":       {func(a *agent.Agent) { a.Limits.Turns = -1 }, `agent "orders-2": limits.turns: -1 is not between 0 and 1000`},
		"duration": {
			func(a *agent.Agent) { a.Limits.Duration = 8 * 24 * time.Hour },
			`agent "orders-2": limits.duration: 192h0m0s is not between 0 and 168h0m0s`,
		},
		"parallel tools": {
			func(a *agent.Agent) { a.Limits.ParallelTools = 1000 },
			`agent "orders-2": limits.parallelTools: 1000 is not between 0 and 128`,
		},
		"output tokens": {
			func(a *agent.Agent) { a.Limits.MaxOutputTokens = -5 },
			`agent "orders-2": limits.maxOutputTokens: -5 is not between 0 and 1048576`,
		},
		"nil tool":  {func(a *agent.Agent) { a.Tools[1] = nil }, `agent "orders-2": tools[1]: no tool`},
		"same name": {func(a *agent.Agent) { a.Tools[1] = a.Tools[0] }, `agent "orders-2": tools[1]: the name "zebra" is already that of tools[0]`},
		"foreign tool": {
			func(a *agent.Agent) {
				a.Tools[2] = foreign{
					spec:       tool.Spec{Name: "far away", Effect: "maybe", Timeout: -time.Second},
					definition: agui.Tool{Name: "far", Parameters: json.RawMessage(`[]`), Description: "\xff"},
				}
			},
			`agent "orders-2": tools[2].name: "far away": want 1 to 64 characters out of A-Z, a-z, 0-9, _ and -
agent "orders-2": tools[2].name: "far away" in its spec and "far" in its definition
agent "orders-2": tools[2].description: not valid UTF-8
agent "orders-2": tools[2].effect: unknown effect "maybe"
agent "orders-2": tools[2].timeout: -1s is negative
agent "orders-2": tools[2].parameters: want a JSON Schema whose type is "object"`,
		},
		"too many tools": {
			func(a *agent.Agent) {
				a.Tools = nil
				for i := range agent.MaxTools + 1 {
					a.Tools = append(a.Tools, named("t"+strings.Repeat("x", i%60)+string(rune('a'+i/60)), tool.Spec{}))
				}
			},
			`agent "orders-2": tools: 129 tools, at most 128 are allowed`,
		},
		"too large as a whole": {
			func(a *agent.Agent) {
				large := json.RawMessage(`{"type":"object","description":"` + strings.Repeat("x", agent.MaxDefinitionBytes) + `"}`)
				a.Tools[2] = foreign{spec: tool.Spec{Name: "far"}, definition: agui.Tool{Name: "far", Parameters: large}}
			},
			`agent "orders-2": definition: `,
		},
		"everything at once": {
			func(a *agent.Agent) {
				*a = agent.Agent{Name: "a b", Model: "\xff", Limits: agent.Limits{Turns: 1001, ParallelTools: -1}}
				a.Tools = []tool.Tool{nil, foreign{spec: tool.Spec{Name: "x"}, definition: agui.Tool{Name: "x", Parameters: object}}}
			},
			`agent "a b": name: want 1 to 64 characters out of a-z, 0-9 and -
agent "a b": model: not valid UTF-8
agent "a b": tools[0]: no tool
agent "a b": limits.turns: 1001 is not between 0 and 1000
agent "a b": limits.parallelTools: -1 is not between 0 and 128`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := valid()
			test.change(&a)
			err := a.Validate()
			if err == nil {
				t.Fatal("accepted")
			}
			if got := err.Error(); got != test.want && !(strings.HasSuffix(test.want, "definition: ") && strings.HasPrefix(got, test.want)) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(test.want, got))
			}
		})
	}
}

func TestDefinitionIsTheSameAfterARoundTrip(t *testing.T) {
	t.Parallel()
	definition := valid().Definition()
	encoded, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	var decoded agent.Definition
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(definition, decoded); diff != "" {
		t.Errorf("definition changed (-want +got):\n%s", diff)
	}
	again, err := json.Marshal(decoded)
	if err != nil || string(again) != string(encoded) {
		t.Errorf("second encoding %s, %v, first %s", again, err, encoded)
	}
	want := `{"name":"orders-2","description":"Looks up \u003corders\u003e \u0026 refunds.","instructions":"Be brief.","model":"fast","tools":[` +
		`{"tool":{"name":"zebra","description":"","parameters":{"type":"object","properties":{},"additionalProperties":false}},"effect":"read_only","timeout":60000000000},` +
		`{"tool":{"name":"ant","description":"a\u003cb","parameters":{"type":"object","properties":{},"additionalProperties":false}},"effect":"at_most_once","timeout":300000000000},` +
		`{"tool":{"name":"far","description":"","parameters":{"type":"object","description":"x\u003ey"}},"effect":"idempotent","timeout":300000000000}],` +
		`"limits":{"turns":32,"duration":3600000000000,"parallelTools":8,"maxOutputTokens":0},"approvals":{"askUnknown":true},"listsLeaves":true}`
	if diff := cmp.Diff(want, string(encoded)); diff != "" {
		t.Errorf("recorded form changed; old histories depend on it (-want +got):\n%s", diff)
	}
}

func TestDefinitionOfABareAgentHasNoNulls(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(agent.Agent{Name: "bare"}.Definition())
	if err != nil || strings.Contains(string(encoded), "null") {
		t.Errorf("%s, %v", encoded, err)
	}
}

func TestLimitsKeepWhatIsSet(t *testing.T) {
	t.Parallel()
	set := agent.Limits{Turns: 1, Duration: time.Second, ParallelTools: 2, MaxOutputTokens: 3}
	if diff := cmp.Diff(set, set.WithDefaults()); diff != "" {
		t.Error(diff)
	}
}

func TestToolsAreFoundByName(t *testing.T) {
	t.Parallel()
	a := valid()
	if found, ok := a.Tool("ant"); !ok || found.Spec().Name != "ant" {
		t.Errorf("got %v, %t", found, ok)
	}
	if found, ok := a.Definition().Tool("far"); !ok || found.Effect != tool.Idempotent {
		t.Errorf("got %v, %t", found, ok)
	}
	_, inAgent := a.Tool("Ant")
	_, inDefinition := a.Definition().Tool("Ant")
	if inAgent || inDefinition {
		t.Error("found a tool there is not")
	}
}

func TestCapabilitiesDeclareWhatTheAgentHas(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(valid().Capabilities())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"identity":{"name":"orders-2","type":"holdfast","description":"Looks up \u003corders\u003e \u0026 refunds."},` +
		`"transport":{"streaming":true,"resumable":true},"tools":{"supported":true,"items":[` +
		`{"name":"zebra","description":"","parameters":{"type":"object","properties":{},"additionalProperties":false}},` +
		`{"name":"ant","description":"a\u003cb","parameters":{"type":"object","properties":{},"additionalProperties":false}},` +
		`{"name":"far","description":"","parameters":{"type":"object","description":"x\u003ey"}}],"parallelCalls":true},` +
		`"execution":{"maxIterations":32,"maxExecutionTime":3600000},` +
		`"custom":{"holdfast":{"limits":{"turns":32,"duration":3600000000000,"parallelTools":8,"maxOutputTokens":0}}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestModelSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*agent.Agent){
		"output.schema":      func(a *agent.Agent) { a.Output = &model.Output{Schema: []byte(`{"type":7}`)} },
		"output.name":        func(a *agent.Agent) { a.Output = &model.Output{Name: "a b", Schema: []byte(`{}`)} },
		"compaction.tokens":  func(a *agent.Agent) { a.Compaction.Method = agent.CompactSummary },
		"compaction.method":  func(a *agent.Agent) { a.Compaction = agent.Compaction{Method: "magic", Tokens: 5000} },
		"fallbacks[0]":       func(a *agent.Agent) { a.Fallbacks = []string{"\xff"} },
		"limits.cost":        func(a *agent.Agent) { a.Limits.Cost = math.NaN() },
		"limits.inputTokens": func(a *agent.Agent) { a.Limits.InputTokens = -1 },
		"limits.attempts":    func(a *agent.Agent) { a.Limits.Attempts = agent.MaxAttempts + 1 },
	} {
		a := valid()
		change(&a)
		if err := a.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
	a := valid()
	a.Output, a.Fallbacks = &model.Output{Schema: []byte(`{ "type": "object" }`)}, []string{"other"}
	a.Compaction = agent.Compaction{Method: agent.CompactResults, Tokens: agent.MinCompactionTokens}
	if err := a.Validate(); err != nil {
		t.Error(err)
	}
	if c := a.Capabilities(); c.Output == nil || !*c.Output.StructuredOutput {
		t.Errorf("the form of the answers is not declared: %+v", c.Output)
	}
}
