package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// The members in which servers send the text of their reasoning.
const (
	memberContent   = "reasoning_content"
	memberReasoning = "reasoning"
)

// detail is a piece of OpenRouter's reasoning_details, which wants all of them
// back as they were.
type detail map[string]json.RawMessage

// grown are the members that a later piece of the same detail continues.
var grown = []string{"text", "summary", "data"}

// continues reports whether next is a further piece of d.
func (d detail) continues(next detail) bool {
	if !bytes.Equal(d["type"], next["type"]) || !bytes.Equal(d["index"], next["index"]) {
		return false
	}
	// What is signed is finished.
	return len(d["index"]) > 0 || !present(d["signature"])
}

// append adds a further piece.
func (d detail) append(next detail) {
	for name, value := range next {
		before := d[name]
		switch {
		case !present(value) && present(before):
		case (name == grown[0] || name == grown[1] || name == grown[2]) && present(before):
			var a, b model.Loose
			if json.Unmarshal(before, &a) == nil && json.Unmarshal(value, &b) == nil {
				d[name], _ = marshal(string(a + b))
			}
		default:
			d[name] = value
		}
	}
}

// details folds the pieces of reasoning_details.
func (s *stream) details(raw json.RawMessage) {
	var pieces []detail
	if !present(raw) || json.Unmarshal(raw, &pieces) != nil {
		return
	}
	s.thought = true
	for _, piece := range pieces {
		if n := len(s.thoughts.ReasoningDetails); n > 0 && s.thoughts.ReasoningDetails[n-1].continues(piece) {
			s.thoughts.ReasoningDetails[n-1].append(piece)
		} else if piece != nil {
			s.thoughts.ReasoningDetails = append(s.thoughts.ReasoningDetails, maps.Clone(piece))
		}
	}
}

// remember passes on what the provider wants back of its reasoning.
func (s *stream) remember() error {
	if !s.thought {
		return nil
	}
	s.thought = false
	t := s.thoughts
	if !s.model.config.ReturnReasoning {
		t.Member = ""
	}
	if t.Member == "" && len(t.ReasoningDetails) == 0 {
		return nil
	}
	value := s.model.seal(t)
	if value == s.remembered {
		return nil
	}
	s.remembered = value
	if !s.yield(model.Delta{ReasoningEncrypted: value}, nil) {
		return errLeft
	}
	return nil
}

// The tags between which some servers put reasoning at the start of the answer.
const (
	openTag  = "<think>"
	closeTag = "</think>"
)

// thinkTags tells reasoning in tags from the answer behind it. Only tags at the
// very start count: further on they are something that the model says.
type thinkTags struct {
	state thinkState
	held  string // what may be the beginning of a tag
}

type thinkState int

const (
	thinkUnknown thinkState = iota // nothing but white space and a piece of a tag so far
	thinkInside
	thinkBehind // the tag is closed, the answer has not begun
	thinkOver
)

// split returns what of the text is thought and what is said.
func (t *thinkTags) split(text string) (thought, said string) {
	text = t.held + text
	t.held = ""
	if t.state == thinkUnknown {
		trimmed := strings.TrimLeft(text, " \t\r\n")
		switch {
		case strings.HasPrefix(trimmed, openTag):
			t.state, text = thinkInside, strings.TrimLeft(trimmed[len(openTag):], "\r\n")
		case strings.HasPrefix(openTag, trimmed):
			t.held = text
			return "", ""
		default:
			t.state = thinkOver
		}
	}
	if t.state == thinkInside {
		at := strings.Index(text, closeTag)
		if at < 0 {
			at = len(text) - overlap(text, closeTag)
			thought, t.held = text[:at], text[at:]
			return thought, ""
		}
		thought, text, t.state = text[:at], text[at+len(closeTag):], thinkBehind
	}
	if t.state == thinkBehind {
		if text = strings.TrimLeft(text, "\r\n"); text != "" {
			t.state = thinkOver
		}
	}
	return thought, text
}

// rest returns what is held back when nothing more comes.
func (t *thinkTags) rest() (thought, said string) {
	held := t.held
	t.held = ""
	if t.state == thinkInside {
		return held, ""
	}
	return "", held
}

// overlap is the length of the longest end of text that begins a tag.
func overlap(text, tag string) int {
	for n := min(len(tag)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
