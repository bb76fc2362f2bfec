package model_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// strictID is the narrowest alphabet of all providers.
var strictID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)

func asks(calls ...string) agui.Message {
	m := agui.Message{Role: agui.RoleAssistant}
	for _, id := range calls {
		m.ToolCalls = append(m.ToolCalls, agui.ToolCall{ID: agui.ToolCallID(id), Function: agui.FunctionCall{Name: "f", Arguments: "{}"}})
	}
	return m
}

func says(role agui.Role, text string) agui.Message {
	return agui.Message{Role: role, Content: agui.Text(text)}
}

func results(call, text string) agui.Message {
	return agui.Message{Role: agui.RoleTool, ToolCallID: agui.ToolCallID(call), Content: agui.Text(text)}
}

func thinks(text, encrypted string) agui.Message {
	return agui.Message{Role: agui.RoleReasoning, Content: agui.Text(text), EncryptedValue: &encrypted}
}

func TestForeignIDsStayDifferent(t *testing.T) {
	foreign := []string{"call_Q1|fc_0f", "call_Q1:fc_0f", "functions.bash:3", strings.Repeat("x", 80), "日本", "", "same", "same"}
	c := model.Prepare(model.Request{Messages: []agui.Message{asks(foreign...)}}, strictID)
	seen := make(map[string]bool)
	for i, call := range c.Steps[0].Calls {
		if !strictID.MatchString(call.ID) || seen[call.ID] {
			t.Errorf("the id %q becomes %q, which is used or not accepted", foreign[i], call.ID)
		}
		seen[call.ID] = true
	}
	again := model.Prepare(model.Request{Messages: []agui.Message{asks(foreign...), says(agui.RoleUser, "More")}}, strictID)
	if diff := cmp.Diff(c.Steps[0], again.Steps[0]); diff != "" {
		t.Errorf("a longer history has other ids:\n%s", diff)
	}
}

func TestReasoningBelongsToAMessage(t *testing.T) {
	for _, test := range []struct {
		name     string
		messages []agui.Message
		want     []string // the artefacts of each step
	}{
		{"in front", []agui.Message{says(agui.RoleUser, "?"), thinks("", "1"), thinks("Hm", "2"), says(agui.RoleAssistant, "!")}, []string{"", "1 2"}},
		{"behind, where a client put it", []agui.Message{says(agui.RoleAssistant, "!"), thinks("", "1"), says(agui.RoleUser, "?")}, []string{"1", ""}},
		{"behind, at the end", []agui.Message{says(agui.RoleAssistant, "!"), thinks("", "1")}, []string{"1"}},
		{"between two", []agui.Message{says(agui.RoleAssistant, "!"), thinks("", "1"), says(agui.RoleAssistant, "!")}, []string{"", "1"}},
		{"of a turn that came to nothing", []agui.Message{thinks("", "1"), says(agui.RoleUser, "?"), says(agui.RoleAssistant, "!")}, []string{"", ""}},
		{"in front and behind", []agui.Message{thinks("", "1"), asks("a"), thinks("", "2"), results("a", "1")}, []string{"1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, step := range model.Prepare(model.Request{Messages: test.messages}, strictID).Steps {
				var values []string
				for _, r := range step.Reasoning {
					values = append(values, r.EncryptedValue)
				}
				got = append(got, strings.Join(values, " "))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("artefacts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSchemasAreOfObjects(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{``, `{"type":"object","properties":{}}`},
		{`true`, `{"type":"object","properties":{}}`},
		{`{ "type" : "object", "properties" : {} }`, `{ "type" : "object", "properties" : {} }`},
		{`{"type":"object"}`, `{"properties":{},"type":"object"}`},
		{`{"type":["object","null"],"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
		{`{"anyOf":[{"required":["a"]}],"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
	} {
		c := model.Prepare(model.Request{Tools: []agui.Tool{{Name: "f", Parameters: json.RawMessage(test.schema)}}}, strictID)
		if got := string(c.Tools[0].Parameters); got != test.want {
			t.Errorf("%s becomes %s, want %s", test.schema, got, test.want)
		}
	}
}

// TestAnyHistoryIsPaired mixes histories at random: whatever comes of them, each
// call has a result, each id is used once, and no result is lost or used twice.
func TestAnyHistoryIsPaired(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		ids := []string{"a", "b", "a:b", "日", ""}
		var history []agui.Message
		total := 0
		for range random.IntN(12) {
			id := ids[random.IntN(len(ids))]
			switch random.IntN(6) {
			case 0:
				history = append(history, says(agui.RoleUser, "?"))
			case 1:
				history = append(history, says(agui.RoleAssistant, "!"))
			case 2:
				history = append(history, thinks("Hm", fmt.Sprint(random.IntN(9))))
			case 3, 4:
				total++
				history = append(history, results(id, fmt.Sprint("result ", total)))
			default:
				history = append(history, asks(id, ids[random.IntN(len(ids))]))
			}
		}
		c := model.Prepare(model.Request{Messages: history}, strictID)
		used, shown := make(map[string]bool), 0
		var texts []string
		for _, step := range c.Steps {
			for _, call := range step.Calls {
				if !strictID.MatchString(call.ID) || used[call.ID] || len(call.Result) != 1 {
					t.Fatalf("seed %d: the call %+v of %+v is not acceptable", seed, call, history)
				}
				used[call.ID] = true
				if text := call.Result[0].Text; text != model.Unanswered {
					shown++
					if slices.Contains(texts, text) {
						t.Fatalf("seed %d: %q is the result of two calls of %+v", seed, text, history)
					}
					texts = append(texts, text)
				}
			}
		}
		if shown+len(c.Stray) != total {
			t.Fatalf("seed %d: of %d results %d are shown and %d left out", seed, total, shown, len(c.Stray))
		}
	}
}

func TestMediaAreWhatTheyAre(t *testing.T) {
	png := "iVBORw0KGgo="
	for _, test := range []struct {
		name string
		part agui.ContentPart
		want model.Media
		ok   bool
	}{
		{"by its bytes", agui.DataPart(agui.PartImage, "image/jpeg", png), model.Media{MimeType: "image/png", Data: png}, true},
		{"without padding, with line breaks", agui.DataPart(agui.PartImage, "", "iVBORw0\nKGgo"), model.Media{MimeType: "image/png", Data: png}, true},
		{"in the alphabet of addresses", agui.DataPart(agui.PartImage, "image/x", "_-8="), model.Media{MimeType: "image/x", Data: "/+8="}, true},
		{"as an address that is data", agui.URLPart(agui.PartImage, "data:image/jpg;base64,/+8="), model.Media{MimeType: "image/jpeg", Data: "/+8="}, true},
		{"as an address with text", agui.URLPart(agui.PartDocument, "data:text/plain,a%20b"), model.Media{MimeType: "text/plain", Data: "YSBi"}, true},
		{"on the web", agui.URLPart(agui.PartImage, "https://example.org/a"), model.Media{URL: "https://example.org/a"}, true},
		{"on a disk", agui.URLPart(agui.PartImage, "file:///etc/passwd"), model.Media{}, false},
		{"not base64", agui.DataPart(agui.PartImage, "image/png", "!"), model.Media{}, false},
		{"nothing", agui.DataPart(agui.PartImage, "image/png", ""), model.Media{}, false},
		{"a handle", agui.FilePart(agui.PartImage, "f"), model.Media{Handle: "f"}, true},
		{"text", agui.TextPart("a"), model.Media{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := model.MediaOf(test.part)
			if ok != test.ok {
				t.Fatalf("got %+v, %t", got, ok)
			}
			if diff := cmp.Diff(test.want, got); ok && diff != "" {
				t.Errorf("media (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextIsTextInAnyFormat(t *testing.T) {
	for mimeType, want := range map[string]bool{
		"text/csv": true, "application/json": true, "application/ld+json": true, "image/svg+xml": false, "application/pdf": false, "": false,
	} {
		if text, ok := (model.Media{MimeType: mimeType, Data: "YQBi/w=="}).Text(); ok != want || ok && text != "a\ufffdb\ufffd" {
			t.Errorf("%s: %q, %t", mimeType, text, ok)
		}
	}
}
