package aguitest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/agui"
)

// Frame returns an event as it is sent.
func Frame(e agui.Event) []byte {
	frame, err := agui.Encode(e)
	if err != nil {
		panic("aguitest: " + err.Error())
	}
	return frame
}

// Broken returns an event as a frame that has one thing wrong with it, or
// unusual: a member too many, one too few, a value of another kind, or no JSON at all.
func (g *Generator) Broken(e agui.Event) []byte {
	frame := Frame(e)
	if g.chance(10) {
		switch g.IntN(4) {
		case 0:
			return frame[:g.IntN(len(frame))]
		case 1:
			return append(frame, frame...)
		case 2:
			return []byte(pick(g, "[]", "null", "7", `"x"`, "{}", "[DONE]", `{"type":""}`, `{"type":7}`, `{"type":null}`))
		default:
			frame[g.IntN(len(frame))] = byte(g.IntN(128))
			return frame
		}
	}
	var value any
	if err := json.Unmarshal(frame, &value); err != nil {
		panic("aguitest: " + err.Error())
	}
	broken, err := json.Marshal(g.breakIn(value))
	if err != nil {
		panic("aguitest: " + err.Error())
	}
	return broken
}

func (g *Generator) breakIn(value any) any {
	var other any
	_ = json.Unmarshal([]byte(pick(g, `null`, `0`, `1.5`, `-1`, `""`, `"x"`, `true`, `[]`, `{}`, `[{}]`, `{"type":"x"}`, `["x"]`, `9007199254740992`)), &other)
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 || g.chance(20) {
			value[pick(g, "extra", "subagentRunId", "metadata", "timestamp", "name", "role", "outcome", "input", "id", "delta", "content", "rawEvent", "constructor")] = other
			return value
		}
		key := slices.Sorted(maps.Keys(value))[g.IntN(len(value))]
		switch g.IntN(4) {
		case 0:
			delete(value, key)
		case 1:
			value[key] = other
		default:
			value[key] = g.breakIn(value[key])
		}
		return value
	case []any:
		if len(value) == 0 || g.chance(25) {
			return append(value, other)
		}
		i := g.IntN(len(value))
		value[i] = g.breakIn(value[i])
		return value
	}
	return other
}
