package differential

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

type knownDifference struct {
	name, reason string
	// is reports whether the refusal of an operation on a document is the difference.
	is func(doc any, o jsonpatch.Operation, refused error) bool
	// later is set when the client has what agui has, until the next patch comes.
	later bool
	// For the example: a state, patches, and the state that the client has then.
	state, client string
	patches       []string
	// activity makes it an example of an activity's content.
	activity bool
}

// known are the differences that are the client's fault, each with the reason for
// agui to do something else. All of them are about patches that RFC 6902 has no
// meaning for, and that agui refuses with a Notice; the client takes them, because of how
// JavaScript's objects and arrays are. Diff makes none of them.
var known = []knownDifference{
	{
		name:   "an index with a leading zero",
		reason: "RFC 6901 has none: 01 is not 1, and no place to insert at",
		is: func(_ any, o jsonpatch.Operation, refused error) bool {
			return errors.Is(refused, jsonpatch.ErrIndex) && leadingZero.MatchString(o.Path)
		},
		state: `{"a":[1,2]}`, patches: []string{`[{"op":"add","path":"/a/01","value":7}]`, `[{"op":"test","path":"/a/02","value":2},{"op":"remove","path":"/a/0"}]`}, client: `{"a":[7,2]}`,
	},
	{
		name:   "an empty index",
		reason: "the empty key is none of an array's indices",
		is: func(_ any, o jsonpatch.Operation, refused error) bool {
			return errors.Is(refused, jsonpatch.ErrIndex) && (strings.HasSuffix(o.Path, "/") || strings.Contains(o.Path, "//"))
		},
		state: `{"a":[1,2]}`, patches: []string{`[{"op":"add","path":"/a/","value":7}]`}, client: `{"a":[7,1,2]}`,
	},
	{
		name:   "an index of more than 32 bits",
		reason: "it is behind the end of the array, and not its beginning",
		is: func(_ any, o jsonpatch.Operation, refused error) bool {
			return errors.Is(refused, jsonpatch.ErrIndex) && manyDigits.MatchString(o.Path)
		},
		state: `{"a":[1,2]}`, patches: []string{`[{"op":"add","path":"/a/4294967296","value":7}]`}, client: `{"a":[7,1,2]}`,
	},
	{
		name:   "copies and moves behind the end of an array",
		reason: "an index must not be greater than the number of elements (RFC 6902, 4.1)",
		is: func(doc any, o jsonpatch.Operation, refused error) bool {
			if o.Op != jsonpatch.Copy && o.Op != jsonpatch.Move || !errors.Is(refused, jsonpatch.ErrIndex) {
				return false
			}
			at := strings.LastIndexByte(o.Path, '/')
			array, ok := lookup(doc, o.Path[:max(at, 0)]).([]any)
			i, err := strconv.Atoi(o.Path[at+1:])
			return ok && err == nil && i >= len(array)
		},
		state: `{"a":[1,2]}`, patches: []string{`[{"op":"copy","from":"/a/0","path":"/a/9"}]`, `[{"op":"move","from":"/a/0","path":"/a/3"}]`}, client: `{"a":[2,1,1]}`,
	},
	{
		name:   "members of a text, a number or a boolean",
		reason: "they have none; the client changes nothing, and goes on with the patch",
		is: func(doc any, o jsonpatch.Operation, refused error) bool {
			return errors.Is(refused, jsonpatch.ErrMissing) && (insideScalar(doc, o.Path) || insideScalar(doc, o.From))
		},
		state: `7`, patches: []string{`[{"op":"add","path":"/a","value":1},{"op":"add","path":"","value":{}}]`}, client: `{}`,
	},
	{
		name:   "members that objects inherit",
		reason: "an object without a member toString has nothing to replace there",
		is: func(_ any, o jsonpatch.Operation, refused error) bool {
			return errors.Is(refused, jsonpatch.ErrMissing) && inherited.MatchString(o.Path+" "+o.From)
		},
		state: `{}`, patches: []string{`[{"op":"replace","path":"/toString","value":1}]`}, client: `{"toString":1}`,
	},
	{
		name:   "the whole document moved into itself",
		reason: "what is moved must not go into itself (RFC 6902, 4.4); the client has a state without end then",
		is: func(_ any, _ jsonpatch.Operation, refused error) bool {
			return errors.Is(refused, jsonpatch.ErrInside)
		},
		state: `{"a":1}`, patches: []string{`[{"op":"move","from":"","path":"/b"}]`}, client: `"endless"`,
	},
	{
		name:   "the whole document replaced by what is not there",
		reason: "a copy of nothing fails; the client has no state at all then, and says so with the next patch only",
		is: func(_ any, o jsonpatch.Operation, refused error) bool {
			return (o.Op == jsonpatch.Copy || o.Op == jsonpatch.Move) && o.Path == "" && (errors.Is(refused, jsonpatch.ErrMissing) || errors.Is(refused, jsonpatch.ErrIndex))
		},
		later: true,
		state: `{}`, patches: []string{`[{"op":"copy","from":"/a","path":""}]`, `[{"op":"add","path":"/b","value":1}]`}, client: `{}`,
	},
	{
		name:   "an activity whose content is no object any more",
		reason: "content is an object in every event and message; the client could not send or restate such a one",
		is: func(_ any, _ jsonpatch.Operation, refused error) bool {
			return errors.Is(refused, jsonpatch.ErrObject)
		},
		state: `{"a":1}`, patches: []string{`[{"op":"replace","path":"","value":[1]}]`}, client: `[1]`, activity: true,
	},
}

var (
	leadingZero = regexp.MustCompile(`/0[0-9]`)
	manyDigits  = regexp.MustCompile(`/[0-9]{10}`)
	// wholeDocument matches an event whose patch copies or moves to the top.
	wholeDocument = regexp.MustCompile(`"op":"(copy|move)","path":""`)
	inherited     = regexp.MustCompile(`/(toString|constructor|valueOf|hasOwnProperty|isPrototypeOf)`)
)

// lookup returns what a pointer leads to, nil when that is nothing.
func lookup(doc any, pointer string) any {
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		switch at := doc.(type) {
		case map[string]any:
			doc = at[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			doc = at[i]
		default:
			return nil
		}
	}
	return doc
}

// insideScalar reports whether a pointer leads into a text, a number or a boolean.
func insideScalar(doc any, pointer string) bool {
	for i, c := range pointer {
		if c != '/' {
			continue
		}
		switch lookup(doc, pointer[:i]).(type) {
		case string, float64, bool:
			return true
		}
	}
	return false
}

// TestKnownDifferences shows each of them: what the client has, and that agui leaves
// everything as it was and says why.
func TestKnownDifferences(t *testing.T) {
	requireClient(t)
	c := start(t)
	for _, k := range known {
		t.Run(k.name, func(t *testing.T) {
			s := stream{Messages: []agui.Message{}, State: json.RawMessage(k.state), Frames: []string{`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`}}
			event := `{"type":"STATE_DELTA","delta":%s}`
			if k.activity {
				s.State = json.RawMessage(`{}`)
				s.Frames = append(s.Frames, fmt.Sprintf(`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"x","content":%s}`, k.state))
				event = `{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"x","patch":%s}`
			}
			for _, patch := range k.patches {
				s.Frames = append(s.Frames, fmt.Sprintf(event, patch))
			}
			answers, err := c.ask([]stream{s})
			if err != nil {
				t.Fatal(err)
			}
			a, err := ours(s)
			if err != nil {
				t.Fatal(err)
			}
			if k.activity {
				a.State, answers[0].State = content(a), content(answers[0])
			}
			if got := string(answers[0].State); got != k.client {
				t.Errorf("the client has %s, want %s", got, k.client)
			}
			if got := string(a.State); got == k.client {
				t.Errorf("agui has %s, too", got)
			}
			if names := refusal(s, len(s.Frames)-len(k.patches)); !slices.Contains(names, k.name) {
				t.Errorf("the first patch is known as %q", names)
			}
		})
	}
}

func content(a answer) json.RawMessage {
	var messages []struct{ Content json.RawMessage }
	if json.Unmarshal(a.Messages, &messages) != nil || len(messages) != 1 {
		return a.Messages
	}
	return messages[0].Content
}

// refusal returns the known differences that the refusal of a patch in one of the
// frames can make.
func refusal(s stream, at int) []string {
	f := agui.NewFold(&agui.RunAgentInput{Messages: s.Messages, State: s.State})
	for _, frame := range s.Frames[:at] {
		e, err := agui.Decode([]byte(frame))
		if err != nil {
			return nil
		}
		_ = f.Apply(e) // as before
	}
	e, err := agui.Decode([]byte(s.Frames[at]))
	if err != nil {
		return nil
	}
	patch, doc := patchOf(f, e)
	refused, ok := errors.AsType[*jsonpatch.Error](f.Apply(e))
	if !ok {
		return nil
	}
	var o jsonpatch.Operation
	var value any
	if refused.Index >= 0 {
		// The document as the operation found it.
		if doc, err = jsonpatch.Apply(doc, patch[:refused.Index]); err != nil {
			return nil
		}
		o = patch[refused.Index]
	}
	if err := json.Unmarshal(doc, &value); err != nil {
		return nil
	}
	var names []string
	for _, k := range known {
		if k.is(value, o, refused) {
			names = append(names, k.name)
		}
	}
	return names
}

// patchOf returns the patch in an event, and what it is for.
func patchOf(f *agui.Fold, e agui.Event) (jsonpatch.Patch, json.RawMessage) {
	var list agui.Patch
	var doc json.RawMessage
	switch e := e.(type) {
	case *agui.StateDelta:
		list, doc = e.Delta, f.State()
	case *agui.ActivityDelta:
		list = e.Patch
		for _, m := range f.Activities() {
			if m.ID == e.MessageID && doc == nil {
				doc = m.ActivityContent
			}
		}
	}
	var patch jsonpatch.Patch
	for _, o := range list {
		op := jsonpatch.Operation{Op: jsonpatch.Op(o.Op), Path: o.Path, Value: o.Value}
		if o.From != nil {
			op.From = *o.From
		}
		if o.Extra == nil || o.Path != "" {
			patch = append(patch, op)
		}
	}
	return patch, doc
}

// explain finds the frame from which on client and agui differ, and returns the
// known difference that it is.
func explain(c *client, s stream) (string, error) {
	var prefixes []stream
	for n := range len(s.Frames) {
		prefix := s
		prefix.Whole, prefix.Frames = false, s.Frames[:n+1]
		prefixes = append(prefixes, prefix)
	}
	answers, err := c.ask(prefixes)
	if err != nil {
		return "", err
	}
	for at, prefix := range prefixes {
		a, err := ours(prefix)
		if err != nil {
			return "", err
		}
		d := difference(answers[at], a)
		if d == "" {
			continue
		}
		if names := refusal(s, at); len(names) > 0 {
			return names[0], nil
		}
		for earlier := range at {
			names := refusal(s, earlier)
			for _, k := range known {
				// In the same patch it can follow another difference.
				if k.later && (slices.Contains(names, k.name) || len(names) > 0 && wholeDocument.MatchString(s.Frames[earlier])) {
					return k.name, nil
				}
			}
		}
		return "", fmt.Errorf("from frame %d on: %s\n%s", at, d, strings.Join(s.Frames[:at+1], "\n"))
	}
	return "", errors.New("no frame makes a difference by itself")
}
