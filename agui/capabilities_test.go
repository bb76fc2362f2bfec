package agui_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
)

// everyCapability has every member that the protocol describes.
const everyCapability = `{
	"identity":{"name":"n","type":"t","description":"d","version":"1","provider":"p","documentationUrl":"u","metadata":{"k":null}},
	"transport":{"streaming":true,"websocket":false,"httpBinary":true,"pushNotifications":false,"resumable":true},
	"tools":{"supported":true,"items":[{"name":"n","description":"d","parameters":{},"metadata":{}}],"parallelCalls":true,"clientProvided":false},
	"output":{"structuredOutput":true,"supportedMimeTypes":["text/plain"]},
	"state":{"snapshots":true,"deltas":true,"memory":false,"persistentState":true},
	"multiAgent":{"supported":true,"delegation":true,"handoffs":false,"subagents":[{"name":"s","description":"d"}]},
	"reasoning":{"supported":true,"streaming":true,"encrypted":false},
	"multimodal":{"input":{"image":true,"audio":false,"video":false,"pdf":true,"file":true},"output":{"image":false,"audio":true}},
	"execution":{"codeExecution":true,"sandboxed":true,"maxIterations":0,"maxExecutionTime":9007199254740991},
	"humanInTheLoop":{"supported":true,"approvals":true,"interventions":false,"feedback":false,"interrupts":true,"approveWithEdits":true},
	"custom":{"any":{"thing":[null]}}
}`

func TestCapabilitiesAreComplete(t *testing.T) {
	t.Parallel()
	var c agui.Capabilities
	if err := json.Unmarshal([]byte(everyCapability), &c); err != nil {
		t.Fatal(err)
	}
	known := 0
	eachField(reflect.ValueOf(c), "", func(path string, v reflect.Value) {
		switch {
		case strings.HasSuffix(path, ".Extra"):
			if !v.IsNil() {
				t.Errorf("%s holds %v: it has no field of its own", path, v)
			}
		case v.IsZero():
			t.Errorf("%s is not read", path)
		default:
			known++
		}
	})
	if known < 50 {
		t.Errorf("%d fields were looked at", known)
	}
	got, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse(t, everyCapability), parse(t, string(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, wrong := range []string{
		`{"transport":true}`, `{"transport":{"streaming":1}}`, `{"execution":{"maxIterations":-1}}`, `{"execution":{"maxExecutionTime":0.5}}`,
		`{"output":{"supportedMimeTypes":[7]}}`, `{"multiAgent":{"subagents":[{}]}}`, `{"tools":{"items":[{"name":"n"}]}}`, `{"custom":[]}`,
		`{"identity":null}`, `{"multimodal":{"input":{"pdf":"yes"}}}`,
	} {
		if err := json.Unmarshal([]byte(wrong), new(agui.Capabilities)); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

// eachField visits the fields of a struct, and of those that it holds, by their paths.
func eachField(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() != reflect.Struct {
			visit(path, v)
			return
		}
		eachField(v.Elem(), path, visit)
	case reflect.Struct:
		for field, value := range v.Fields() {
			eachField(value, path+"."+field.Name, visit)
		}
	case reflect.Slice:
		visit(path, v)
		for i := range v.Len() {
			if v.Index(i).Kind() == reflect.Struct {
				eachField(v.Index(i), path+"[]", visit)
			}
		}
	default:
		visit(path, v)
	}
}
