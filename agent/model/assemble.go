package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// maxTurnBytes bounds what one turn may hold. The longest answers of today's
	// models are about half a megabyte; single lines of 2 MiB have been seen.
	maxTurnBytes = 16 << 20
	// maxCalls bounds the calls of one turn; providers allow 128.
	maxCalls = 256
	// maxCallID bounds an id. Some providers pack state into it and reach
	// kilobytes, which subjects, keys and other providers do not carry.
	maxCallID = 256
)

// Assembler folds the deltas of one answer into a turn. It looks only at what
// the fragments say: the same deltas give the same turn, also in another
// process.
//
// # How fragments are joined
//
//   - Fragments with an index belong to the call last begun at that index.
//     Without an index they belong to the call with their id; without an id,
//     to the call of the fragment before.
//   - A call begins where a name stands with an index or id not seen before.
//     At a known index it begins where a name stands with another id, or behind
//     arguments that are complete and different.
//   - An empty id or name says nothing: it neither begins a call nor erases
//     what came first.
//   - Without an index and an id, an equal call behind its equal is a repeat.
//
// # What becomes of arguments
//
// None at all are {}. A complete object that is followed by itself, or by ever
// longer copies of itself, is that object; an empty object before another one
// is a placeholder; an object inside a JSON string is that object. Anything
// else that is not one JSON object makes the call [ToolCall.Incomplete].
//
// The zero Assembler is ready for use; [NewAssembler] is what a runtime wants.
// It is not safe for concurrent use.
type Assembler struct {
	// Seed goes into ids that have to be made up, so that they are the same in
	// every attempt and differ between turns. Name the run and the turn.
	Seed string
	// Taken reports whether the thread has used an id already. Providers that
	// number calls anew in each turn would otherwise reopen old calls.
	Taken func(id string) bool
	// Apart replaces all ids: the conversation is one of several, whose calls must
	// differ.
	Apart bool
	// Output refuses an answer without calls that is not JSON of this form.
	Output *Output

	text, reasoning strings.Builder
	encrypted       string
	calls           []*partialCall
	last            *partialCall
	finish          Finish
	usage           *agui.TokenUsage
	cost            *Money
	size            int
	err             error
}

// NewAssembler returns an assembler for the turn that follows history. The seed
// names the turn within the thread, for example "<run>/<turn>".
func NewAssembler(seed string, history []agui.Message) *Assembler {
	taken := make(map[string]bool)
	for _, m := range history {
		for _, c := range m.ToolCalls {
			taken[string(c.ID)] = true
		}
	}
	return &Assembler{Seed: seed, Taken: func(id string) bool { return taken[id] }}
}

// partialCall is a call whose fragments are still arriving.
type partialCall struct {
	index     int
	id, name  string
	encrypted string
	arguments []byte
	// starts holds where in arguments each fragment begins.
	starts []int
}

// Add takes the next delta. An error is final: the turn cannot be assembled, and
// every later call returns the same error.
func (a *Assembler) Add(d Delta) error {
	if a.err != nil {
		return a.err
	}
	a.size += len(d.Text) + len(d.Reasoning) + len(d.ReasoningEncrypted)
	a.text.WriteString(d.Text)
	a.reasoning.WriteString(d.Reasoning)
	if d.ReasoningEncrypted != "" {
		a.encrypted = d.ReasoningEncrypted
	}
	if d.Usage != nil {
		a.usage = d.Usage
	}
	if d.Cost != nil {
		a.cost = d.Cost
	}
	if a.finish != FinishLength && a.finish != FinishContentFilter && d.Finish != "" {
		a.finish = d.Finish // a cut stays a cut, whatever is claimed later
	}
	if d.Call != nil {
		a.err = a.addCall(*d.Call)
	}
	if a.err == nil && a.size > maxTurnBytes {
		a.err = damaged("the answer is longer than %d MiB", maxTurnBytes>>20)
	}
	return a.err
}

func (a *Assembler) addCall(d CallDelta) error {
	a.size += len(d.ID) + len(d.Name) + len(d.Arguments) + len(d.EncryptedValue)
	d.Name = strings.TrimSpace(d.Name)
	if d.ID == "" && d.Name == "" && d.Arguments == "" && d.EncryptedValue == "" {
		return nil
	}
	c := a.find(d)
	if c != nil {
		begins, err := c.beginsAnother(d)
		if err != nil {
			return err
		}
		if begins {
			c = nil
		}
	}
	if c == nil {
		if d.Index < 0 && d.ID == "" && d.Name == "" {
			return damaged("a piece of a tool call belongs to no call")
		}
		if len(a.calls) == maxCalls {
			return damaged("the answer has more than %d tool calls", maxCalls)
		}
		c = &partialCall{index: NoIndex}
		a.calls = append(a.calls, c)
	}
	c.merge(d)
	a.last = c
	return nil
}

// find returns the call that a fragment continues, or nil when it names one that
// has not begun.
func (a *Assembler) find(d CallDelta) *partialCall {
	byID := func() *partialCall {
		for _, c := range slices.Backward(a.calls) {
			if c.id == d.ID {
				return c
			}
		}
		return nil
	}
	switch {
	case d.Index >= 0:
		for _, c := range slices.Backward(a.calls) {
			if c.index == d.Index {
				return c
			}
		}
		// Some servers count the index up with every fragment of one call.
		if d.ID != "" && d.Name == "" {
			return byID()
		}
		return nil
	case d.ID != "":
		return byID()
	default:
		return a.last
	}
}

// beginsAnother reports whether a fragment that was found to belong to c begins
// a further call in its place.
func (c *partialCall) beginsAnother(d CallDelta) (bool, error) {
	if d.Name == "" || c.name == "" {
		return false, nil
	}
	if d.ID != "" && c.id != "" && d.ID != c.id {
		return true, nil
	}
	whole := c.whole()
	if d.Name != c.name {
		switch {
		case len(c.arguments) == 0 && strings.HasPrefix(d.Name, c.name):
			return false, nil // the name so far, restated
		case whole, d.ID == "" && len(c.arguments) > 0, d.ID == "" && d.Index < 0:
			return true, nil
		default:
			// Pieces of one name, or two calls? Either guess may run the wrong tool.
			return false, damaged("one tool call is named %q and %q", c.name, d.Name)
		}
	}
	if !whole || isEmptyObject(string(bytes.TrimSpace(c.arguments))) {
		return false, nil
	}
	more := strings.TrimSpace(d.Arguments)
	return more != "" && !sameJSON(string(c.arguments), more), nil
}

// whole reports whether the arguments so far are a complete object, which
// nothing can continue.
func (c *partialCall) whole() bool {
	text := bytes.TrimSpace(c.arguments)
	// The last byte is looked at first: some servers name the call in each of
	// thousands of fragments.
	return len(text) > 0 && text[len(text)-1] == '}' && isObject(string(text))
}

func (c *partialCall) merge(d CallDelta) {
	if c.index < 0 {
		c.index = d.Index
	}
	if c.id == "" {
		c.id = d.ID
	}
	if len(d.Name) > len(c.name) {
		c.name = d.Name
	}
	if d.EncryptedValue != "" {
		c.encrypted = d.EncryptedValue
	}
	if d.Arguments != "" {
		c.starts = append(c.starts, len(c.arguments))
		c.arguments = append(c.arguments, d.Arguments...)
	}
}

// Turn returns the whole answer, when the stream has ended. It changes nothing
// and may be called again.
//
// It refuses a stream that did not say that it was finished, calls without a
// name, and an answer that is missing: no text and no call, no call where the
// provider said that there is one, no JSON where that was asked for. Those are
// retryable [KindProtocol] errors. An answer of which a filter left nothing is
// [KindRefused], one of which the limit left nothing [KindOutputLimit].
func (a *Assembler) Turn() (Turn, error) {
	if a.err != nil {
		return Turn{}, a.err
	}
	if a.finish == "" {
		return Turn{}, damaged("the answer ended before it was finished")
	}
	t := Turn{
		Text:               a.text.String(),
		Reasoning:          a.reasoning.String(),
		ReasoningEncrypted: a.encrypted,
		Finish:             a.finish,
		Usage:              a.usage,
		Cost:               a.cost,
	}
	calls := slices.Clone(a.calls)
	if !slices.ContainsFunc(calls, func(c *partialCall) bool { return c.index < 0 }) {
		slices.SortStableFunc(calls, func(x, y *partialCall) int { return x.index - y.index })
	}
	used := make(map[string]bool, len(calls))
	for i, c := range calls {
		if c.name == "" {
			return Turn{}, damaged("a tool call has no name")
		}
		call := ToolCall{ID: a.id(c, i, used), Name: c.name, EncryptedValue: c.encrypted}
		var whole bool
		call.Arguments, whole = wholeArguments(string(c.arguments), c.starts)
		switch a.finish {
		case FinishLength:
			// Nothing at all may be arguments that had not begun to arrive.
			call.Incomplete = !whole || len(bytes.TrimSpace(c.arguments)) == 0
		case FinishContentFilter:
			call.Incomplete = true
		default:
			call.Incomplete = !whole
		}
		t.Calls = append(t.Calls, call)
	}

	switch a.finish {
	case FinishStop, FinishToolCalls, FinishLength, FinishContentFilter:
	default:
		return Turn{}, damaged("the answer ended for an unknown reason, %q", a.finish)
	}
	switch {
	case len(t.Calls) > 0 && a.finish == FinishStop:
		t.Finish = FinishToolCalls
	case len(t.Calls) > 0:
	case a.finish == FinishToolCalls:
		return Turn{}, damaged("the answer announces tool calls and has none")
	case strings.TrimSpace(t.Text) != "":
		if a.Output != nil && a.finish == FinishStop {
			if err := a.Output.Check(t.Text); err != nil {
				return Turn{}, damaged("the answer is not the JSON that was asked for: %v", err)
			}
		}
	case a.finish == FinishStop:
		return Turn{}, damaged("the answer is empty")
	case a.finish == FinishLength:
		return Turn{}, &Error{Kind: KindOutputLimit, Message: "the output limit was reached before the model had said anything"}
	default:
		return Turn{}, &Error{Kind: KindRefused, Message: "the provider's content filter withheld the answer"}
	}
	return t, nil
}

// id returns the provider's id when it can serve, and otherwise one that depends
// on the seed and the call's place alone.
func (a *Assembler) id(c *partialCall, place int, used map[string]bool) string {
	id := c.id
	if a.Apart {
		id = ""
	}
	for n := 0; id == "" || len(id) > maxCallID || used[id] || a.Taken != nil && a.Taken(id); n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s", a.Seed, place, n, c.id))
		// 24 digits: unique for all practice, and within the 40 characters
		// that the strictest provider allows.
		id = "call_" + hex.EncodeToString(sum[:12])
	}
	used[id] = true
	return id
}
