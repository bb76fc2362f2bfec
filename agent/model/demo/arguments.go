package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

// values returns what the message has for a parameter: several where it is about
// several things, none where it says nothing.
func (m *mind) values(p param) []any {
	switch p.schema {
	case "string":
		return list(m.strings(p))
	case "integer", "number":
		switch p.kind {
		case kindMoney:
			if cents, ok := m.message.cents(); ok {
				if !slices.Contains(nameWords(p.name), "cents") {
					return []any{json.Number(fmt.Sprintf("%d.%02d", cents/100, cents%100))}
				}
				return []any{cents}
			}
		case kindStart, kindCount:
			return nil // numbers in a message are seldom about lines
		default:
			if n, ok := m.message.number(); ok {
				return []any{n}
			}
		}
	case "boolean":
		return []any{true}
	}
	return nil
}

func (m *mind) strings(p param) []string {
	msg := m.message
	if len(p.enum) > 0 {
		for _, v := range p.enum {
			if msg.has(strings.ToLower(v)) {
				return []string{v}
			}
		}
		return nil
	}
	switch p.kind {
	case kindID:
		return m.mentioned(func(msg *message) []string { return msg.ids })
	case kindFile:
		return m.mentioned(func(msg *message) []string { return msg.files })
	case kindQuery:
		return nonEmpty(msg.topic(m.namesTool))
	case kindReason:
		if why := msg.behind("because", "since"); why != "" {
			return []string{shorten(why, maxReason)}
		}
		return nonEmpty(shorten(strings.Join(strings.Fields(msg.text), " "), maxReason))
	}
	if len(msg.quotes) > 0 {
		return msg.quotes
	}
	if len(msg.names) > 0 {
		return msg.names
	}
	for _, t := range msg.tokens {
		if strings.Contains(t.word, "@") {
			return []string{t.word}
		}
	}
	phrase := msg.behind("for", "of", "by", "named", "called", "to")
	if inside := readMessage(phrase); len(inside.ids)+len(inside.files) > 0 {
		return nil // that is what another parameter is for
	}
	return nonEmpty(phrase)
}

// mentioned returns what the message mentions; where it only says "it", what was
// mentioned last before.
func (m *mind) mentioned(of func(*message) []string) []string {
	if found := of(m.message); len(found) > 0 {
		return found
	}
	if !m.message.has("it", "that", "this", "them", "those", "again", "same") {
		return nil
	}
	for _, msg := range slices.Backward(m.earlier) {
		if msg.Role != agui.RoleUser && msg.Role != agui.RoleAssistant {
			continue
		}
		if found := of(readMessage(msg.Content.Text())); len(found) > 0 {
			return found
		}
	}
	return nil
}

// targets returns the arguments of the calls to make: one call for each value of
// the first parameter that has several.
func (m *mind) targets(i *instrument) []map[string]any {
	single := make(map[string]any)
	var many param
	var values []any
	for _, p := range i.params {
		found := m.values(p)
		if len(found) == 0 || !p.required && !m.worthFilling(p) {
			continue
		}
		if len(found) > 1 && p.required && values == nil {
			many, values = p, found[:min(len(found), maxTargets)]
			continue
		}
		single[p.name] = found[0]
	}
	if values == nil {
		return []map[string]any{single}
	}
	var targets []map[string]any
	for _, v := range values {
		target := map[string]any{many.name: v}
		maps.Copy(target, single)
		targets = append(targets, target)
	}
	return targets
}

// worthFilling reports whether an optional parameter is filled in: only with what
// can't be meant otherwise.
func (m *mind) worthFilling(p param) bool {
	return p.kind == kindMoney || p.kind == kindID || p.kind == kindFile || len(p.enum) > 0
}

// bestHit returns the arguments with which to read the first thing that a search
// has found, or nil.
func (m *mind) bestHit(reader *instrument, searches []step) map[string]any {
	target, _ := reader.param(func(p param) bool { return p.required })
	for _, s := range searches {
		if s.failed || !s.answered {
			continue
		}
		hit := bestObject(s.result, target.name, strings.Fields(strings.ToLower(m.message.topic(m.namesTool))))
		if hit == nil {
			if files := readMessage(s.result).files; target.kind == kindFile && len(files) > 0 {
				return map[string]any{target.name: files[0]}
			}
			continue
		}
		arguments := map[string]any{target.name: hit[target.name]}
		line, _ := hit["line"].(json.Number)
		if n, err := line.Int64(); err == nil && n > contextLines {
			if start, ok := reader.param(func(p param) bool { return p.kind == kindStart && p.schema == "integer" }); ok {
				arguments[start.name] = n - contextLines
			}
		}
		if count, ok := reader.param(func(p param) bool { return p.kind == kindCount && p.schema == "integer" }); ok {
			arguments[count.name] = readLines
		}
		return arguments
	}
	return nil
}

// bestObject returns, of the objects in a JSON text that have a string under name,
// the one that fits the words best; of equals the first, as searches rank by
// themselves.
func bestObject(text, name string, words []string) (best map[string]any) {
	most := -1
	var search func(v any)
	search = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if s, ok := v[name].(string); ok && s != "" {
				if score := relevance(flat(v), words); score > most {
					best, most = v, score
				}
				return
			}
			for _, key := range sortedKeys(v) {
				search(v[key])
			}
		case []any:
			for _, element := range v {
				search(element)
			}
		}
	}
	search(parseJSON(text))
	return best
}

func list(values []string) []any {
	var all []any
	for _, v := range values {
		all = append(all, v)
	}
	return all
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
