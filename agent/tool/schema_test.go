package tool_test

import (
	"context"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

// taking returns a tool that returns its arguments as they arrived.
func taking[In any](spec ...tool.Spec) tool.Tool {
	s := tool.Spec{Name: "echo"}
	if len(spec) > 0 {
		s = spec[0]
	}
	return tool.New(s, func(_ context.Context, _ *tool.Call, in In) (In, error) { return in, nil })
}

func parameters[In any](t *testing.T) string {
	t.Helper()
	return string(taking[In]().Definition().Parameters)
}

type level string

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "low" && string(text) != "high" {
		return tool.Errorf("want low or high")
	}
	*l = level(text)
	return nil
}

type anyShape struct{ raw string }

func (a *anyShape) UnmarshalJSON(data []byte) error { a.raw = string(data); return nil }
func (a anyShape) MarshalJSON() ([]byte, error)     { return []byte(a.raw), nil }

func TestSchemaSaysWhatEncodingJSONReads(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ got, want string }{
		"required, optional and described, in the order of the fields": {
			parameters[struct {
				Zebra string `json:"zebra" jsonschema:"comes first"`
				Ant   *int   `json:"ant,omitempty"`
				inner int    //nolint:unused // must not show
				Skip  string `json:"-"`
			}](t),
			`{"type":"object","properties":{"zebra":{"type":"string","description":"comes first"},"ant":{"type":"integer"}},"required":["zebra"],"additionalProperties":false}`,
		},
		"nothing": {parameters[struct{}](t), `{"type":"object","properties":{},"additionalProperties":false}`},
		"map":     {parameters[map[string]bool](t), `{"type":"object","properties":{},"additionalProperties":{"type":"boolean"}}`},
		"null only where nothing else can be said": {
			parameters[struct {
				Pointer  *string  `json:"pointer"`
				Optional *string  `json:"optional,omitempty"`
				List     []string `json:"list"`
			}](t),
			`{"type":"object","properties":{"pointer":{"type":["null","string"]},"optional":{"type":"string"},"list":{"type":"array","items":{"type":"string"}}},"required":["pointer","list"],"additionalProperties":false}`,
		},
		"types that read themselves": {
			parameters[struct {
				When  time.Time       `json:"when"`
				Large big.Int         `json:"large"`
				Bytes []byte          `json:"bytes"`
				Raw   json.RawMessage `json:"raw"`
				Level level           `json:"level"`
				Num   json.Number     `json:"num"`
			}](t),
			`{"type":"object","properties":{"when":{"type":"string","format":"date-time"},"large":{"type":"integer"},"bytes":{"type":"string","contentEncoding":"base64"},` +
				`"raw":{"type":["string","number","boolean","object","array","null"]},"level":{"type":"string"},"num":{"type":"number"}},` +
				`"required":["when","large","bytes","raw","level","num"],"additionalProperties":false}`,
		},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSchemaKeepsItsBytesInsideOtherJSON(t *testing.T) {
	t.Parallel()
	definition := taking[struct {
		Query string `json:"query" jsonschema:"like a<b && c>d, or ü"`
	}]().Definition()
	encoded, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	var decoded struct{ Parameters json.RawMessage }
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(definition.Parameters), string(decoded.Parameters)); diff != "" {
		t.Errorf("parameters changed (-want +got):\n%s", diff)
	}
}

type recursive struct {
	Next *recursive `json:"next,omitempty"`
}

type embedded struct{ A string }

func TestNewPanicsOnWhatCanNotWork(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *tool.Call, struct{}) (string, error) { return "", nil }
	for name, test := range map[string]struct {
		make func()
		want string
	}{
		"no name":          {func() { tool.New(tool.Spec{}, nothing) }, `tool name ""`},
		"name with a dot":  {func() { tool.New(tool.Spec{Name: "a.b"}, nothing) }, `tool name "a.b"`},
		"long name":        {func() { tool.New(tool.Spec{Name: strings.Repeat("x", 65)}, nothing) }, "1 to 64 characters"},
		"unknown effect":   {func() { tool.New(tool.Spec{Name: "x", Effect: "twice"}, nothing) }, `tool x: unknown effect "twice"`},
		"negative timeout": {func() { tool.New(tool.Spec{Name: "x", Timeout: -1}, nothing) }, "tool x: negative timeout"},
		"no function":      {func() { tool.New[struct{}, string](tool.Spec{Name: "x"}, nil) }, "tool x: no function"},
		"string arguments": {func() { taking[string]() }, "tool echo: arguments of type string: want a struct"},
		"function field":   {func() { taking[struct{ F func() }]() }, "echo"},
		"cycle":            {func() { taking[recursive]() }, "cycle"},
		"string option": {func() {
			taking[struct {
				N int `json:"n,string"`
			}]()
		}, "option string"},
		"named embedded": {func() {
			taking[struct {
				embedded `json:"e"`
			}]()
		}, "embedded field"},
		"interface with methods": {func() { taking[struct{ E error }]() }, "interface"},
		"result is a channel": {func() {
			tool.New(tool.Spec{Name: "x"}, func(context.Context, *tool.Call, struct{}) (chan int, error) { return nil, nil })
		}, "tool x: result of type chan int"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				message, _ := recover().(string)
				if !strings.Contains(message, test.want) {
					t.Errorf("panic %q, want one with %q", message, test.want)
				}
			}()
			test.make()
		})
	}
}
