package anthropic

import (
	"encoding/json"
	"slices"
	"strings"
)

// sealed is the form in which the thinking of a turn lies in a history. It names
// the host it is from, because others refuse what is not theirs.
type sealed struct {
	Host   string        `json:"host"`
	Blocks []sealedBlock `json:"blocks"`
}

// sealedBlock is a block of thinking as it came, or a mark for the place of
// another block: a text of so many bytes, a call. Marks are there only when
// thinking came behind something else.
type sealedBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Data      string `json:"data,omitempty"`
	Length    int    `json:"length,omitempty"`
}

// block returns the block that goes back.
func (b sealedBlock) block() (block, bool) {
	switch {
	case b.Type == blockThinking && b.Signature != "":
		return block{Type: blockThinking, Thinking: &b.Thinking, Signature: b.Signature}, true
	case b.Type == blockRedacted && b.Data != "":
		return block{Type: blockRedacted, Data: b.Data}, true
	}
	return block{}, false
}

// seal returns the artefact of a turn's thinking, "" when there is none.
func (m *messages) seal(received []*received) string {
	s := sealed{Host: m.host}
	thought, mixed := false, false
	for _, r := range received {
		b := r.sealed()
		_, isThought := b.block()
		switch {
		case isThought:
			mixed = mixed || len(s.Blocks) > 0 && !isThinking(s.Blocks[len(s.Blocks)-1])
			thought = true
		case b.Type == blockText && b.Length == 0, b.Type != blockText && b.Type != blockCall:
			continue // thinking that is not signed: it was cut, and would be refused
		}
		s.Blocks = append(s.Blocks, b)
	}
	if !thought {
		return ""
	}
	if !mixed {
		s.Blocks = slices.DeleteFunc(s.Blocks, func(b sealedBlock) bool { return !isThinking(b) })
	}
	out, err := marshal(s)
	if err != nil {
		return ""
	}
	return string(out)
}

func isThinking(b sealedBlock) bool { return b.Type == blockThinking || b.Type == blockRedacted }

// unseal returns the blocks of an artefact that this provider made.
func (m *messages) unseal(value string) []sealedBlock {
	var s sealed
	if value == "" || json.Unmarshal([]byte(value), &s) != nil || s.Host != m.host {
		return nil
	}
	return slices.DeleteFunc(s.Blocks, func(b sealedBlock) bool {
		_, ok := b.block()
		return !ok && b.Type != blockText && b.Type != blockCall
	})
}

// interleaved puts thinking back where it was among text and calls. It reports
// whether that is known, and still fits what the message holds.
func interleaved(thoughts []sealedBlock, text string, calls []block) ([]block, bool) {
	var out []block
	marks := 0
	for _, t := range thoughts {
		b, ok := t.block()
		switch {
		case ok:
			out = append(out, b)
			continue
		case t.Type == blockText && t.Length > 0 && t.Length <= len(text):
			if said := text[:t.Length]; strings.TrimSpace(said) != "" {
				out = append(out, block{Type: blockText, Text: said})
			}
			text = text[t.Length:]
		case t.Type == blockCall && len(calls) > 0:
			out = append(out, calls[0])
			calls = calls[1:]
		default:
			return nil, false
		}
		marks++
	}
	return out, marks > 0 && text == "" && len(calls) == 0
}
