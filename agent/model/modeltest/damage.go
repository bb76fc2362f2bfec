package modeltest

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// Damage returns a recorded body as a bad server or network may leave it: cut,
// with bytes changed, lost or repeated, values of other types, and pieces of itself
// in wrong places. The same seed does the same damage.
func Damage(body string, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 0))
	for range 1 + r.IntN(3) {
		if body == "" {
			break
		}
		from := r.IntN(len(body))
		to := from + r.IntN(min(len(body)-from, 200)+1)
		switch r.IntN(7) {
		case 0:
			body = body[:from]
		case 1:
			body = body[:from] + body[to:]
		case 2:
			body = body[:to] + body[from:]
		case 3:
			at := r.IntN(len(body))
			body = body[:at] + body[from:to] + body[at:]
		case 4:
			body = body[:from] + string(rune(r.IntN(0x100))) + body[from+1:]
		case 5:
			body = replaceOne(r, body, jsonValue)
		default:
			body = strings.Join(disturb(r, split(body)), "")
		}
	}
	return body
}

// Disturb returns a recorded body with whole events lost, repeated, out of order
// or cut off at the end, or without a member that names a piece. What is left is as
// it was: no piece of a call may end up in another.
func Disturb(body string, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	events := split(body)
	for range 1 + r.IntN(2) {
		if r.IntN(4) == 0 {
			i := r.IntN(len(events))
			events[i] = replaceOne(r, events[i], namingMember)
		} else {
			events = disturb(r, events)
		}
		if len(events) == 0 {
			break
		}
	}
	return strings.Join(events, "")
}

var (
	jsonValue    = regexp.MustCompile(`"[^"\\]*"|\b\d+\b|null|true|false|\{\}|\[\]`)
	namingMember = regexp.MustCompile(`"(id|name|finish_reason|stop_reason)":("[^"]*"|\d+)`)
)

// otherValues are what servers send in the place of what the protocol has.
var otherValues = []string{`null`, `""`, `0`, `1`, `-1`, `1e999`, `{}`, `[]`, `"stop"`, `[{"type":"text"}]`, `true`, `"\ud800"`}

func replaceOne(r *rand.Rand, text string, what *regexp.Regexp) string {
	found := what.FindAllStringSubmatchIndex(text, -1)
	if len(found) == 0 {
		return text
	}
	at := found[r.IntN(len(found))]
	if what == namingMember {
		return text[:at[4]] + `null` + text[at[5]:]
	}
	return text[:at[0]] + otherValues[r.IntN(len(otherValues))] + text[at[1]:]
}

// split cuts a body into its events.
func split(body string) []string { return strings.SplitAfter(body, "\n\n") }

func disturb(r *rand.Rand, events []string) []string {
	events = slices.Clone(events)
	i, j := r.IntN(len(events)), r.IntN(len(events))
	switch r.IntN(4) {
	case 0:
		return events[:i]
	case 1:
		return slices.Delete(events, i, i+1)
	case 2:
		return slices.Insert(events, j, events[i])
	default:
		events[i], events[j] = events[j], events[i]
		return events
	}
}
