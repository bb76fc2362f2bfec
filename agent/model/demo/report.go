package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	// maxBullets bounds a list, and maxQuoted the lines that are quoted.
	maxBullets, maxQuoted = 12, 6
	// maxLine bounds, in bytes, a quoted line: some are not written for people.
	maxLine = 200
	// maxPlain bounds, in bytes, what of a plain result is repeated.
	maxPlain = 600
)

// report says what came of the calls: of the last stage, and of what failed before.
func (m *mind) report(steps []step) string {
	last := steps[len(steps)-1].tool
	var said []string
	for i, s := range steps {
		switch {
		case !s.answered:
			said = append(said, fmt.Sprintf("I have no result of %s.", s.tool))
		case s.failed:
			said = append(said, fmt.Sprintf("%s did not work: %s", s.tool, shorten(oneLine(s.result), maxPlain)))
		case s.tool == last:
			said = append(said, m.result(s))
		case i == len(steps)-1 || s.tool != steps[i+1].tool:
			// An earlier stage was only the way here.
		}
	}
	return strings.Join(said, "\n\n")
}

// result puts one result in words.
func (m *mind) result(s step) string {
	switch v := parseJSON(s.result).(type) {
	case map[string]any:
		if text, ok := longText(v); ok {
			return m.quote(v, text)
		}
		if key, elements, ok := onlyList(v); ok {
			return m.bullets(s, key, elements)
		}
		return fmt.Sprintf("%s: %s.", s.tool, flat(v))
	case []any:
		return m.bullets(s, "results", v)
	}
	if text := strings.TrimSpace(s.result); text != "" {
		return fmt.Sprintf("%s says: %s", s.tool, shorten(text, maxPlain))
	}
	return s.tool + " is done."
}

// quote shows the lines of a text that have the most words of the message.
func (m *mind) quote(result map[string]any, text string) string {
	words := strings.Fields(strings.ToLower(m.message.topic(m.namesTool)))
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	best, most := 0, 0
	for i, line := range lines {
		if score := relevance(line, words); score > most {
			best, most = i, score
		}
	}
	var quoted []string
	for _, line := range lines[best:] {
		if len(quoted) == maxQuoted || len(quoted) > 2 && strings.TrimSpace(line) == "" {
			break
		}
		quoted = append(quoted, strings.TrimRight("> "+shorten(line, maxLine), " "))
	}
	where := "I read"
	if path, ok := result["path"].(string); ok {
		where = "From " + path
	}
	start := int64(1)
	if n, ok := result["start_line"].(json.Number); ok {
		if given, err := n.Int64(); err == nil {
			start = given
		}
	}
	return fmt.Sprintf("%s, line %d:\n\n%s", where, start+int64(best), strings.Join(quoted, "\n"))
}

// bullets shows the elements of a list.
func (m *mind) bullets(s step, key string, elements []any) string {
	if len(elements) == 0 {
		if about := m.message.topic(m.namesTool); about != "" {
			return fmt.Sprintf("%s found no %s for “%s”.", s.tool, pretty(key), about)
		}
		return fmt.Sprintf("%s found no %s.", s.tool, pretty(key))
	}
	said := []string{fmt.Sprintf("%s found %s:", s.tool, counted(len(elements), pretty(key))), ""}
	for i, e := range elements {
		if i == maxBullets {
			said = append(said, fmt.Sprintf("- and %d more", len(elements)-maxBullets))
			break
		}
		said = append(said, "- "+flat(e))
	}
	return strings.Join(said, "\n")
}

// longText returns the member of an object that is a text of its own.
func longText(o map[string]any) (string, bool) {
	for _, name := range []string{"text", "content", "body"} {
		if text, ok := o[name].(string); ok && text != "" {
			return text, true
		}
	}
	return "", false
}

// onlyList returns the list in an object that says otherwise only how it came
// about.
func onlyList(o map[string]any) (key string, elements []any, ok bool) {
	for _, k := range []string{"matches", "results", "hits", "entries", "items", "files", "orders"} {
		if l, is := o[k].([]any); is && o["id"] == nil {
			// A thing that has items is more than their list.
			if slices.ContainsFunc(sortedKeys(o), func(k string) bool { return strings.HasSuffix(k, "_id") }) {
				continue
			}
			return k, l, true
		}
	}
	return "", nil, false
}

// flat writes a value on one line.
func flat(v any) string {
	switch v := v.(type) {
	case map[string]any:
		if path, ok := v["path"].(string); ok && v["line"] != nil {
			return fmt.Sprintf("%s:%v: %v", path, v["line"], v["text"])
		}
		var members []string
		for _, key := range sortedKeys(v) {
			members = append(members, member(key, v[key]))
		}
		return strings.Join(members, ", ")
	case []any:
		var elements []string
		for _, e := range v {
			elements = append(elements, flat(e))
		}
		return "[" + strings.Join(elements, "; ") + "]"
	case nil:
		return "nothing"
	default:
		return fmt.Sprint(v)
	}
}

// member writes a member of an object; cents are money.
func member(key string, v any) string {
	if name, ok := strings.CutSuffix(key, "_cents"); ok {
		if n, isNumber := v.(json.Number); isNumber {
			if cents, err := n.Int64(); err == nil && cents >= 0 {
				return fmt.Sprintf("%s %d.%02d", pretty(name), cents/100, cents%100)
			}
		}
	}
	return pretty(key) + " " + flat(v)
}

// counted returns a number of things whose name is in the plural.
func counted(n int, things string) string {
	if n == 1 {
		switch {
		case strings.HasSuffix(things, "ies"):
			things = strings.TrimSuffix(things, "ies") + "y"
		case strings.HasSuffix(things, "ches"):
			things = strings.TrimSuffix(things, "es")
		default:
			things = strings.TrimSuffix(things, "s")
		}
	}
	return fmt.Sprintf("%d %s", n, things)
}

func pretty(key string) string { return strings.Join(nameWords(key), " ") }

// askFor says what is missing for a tool that was asked for.
func (m *mind) askFor(i *instrument) string {
	for _, p := range i.params {
		if p.required && len(m.values(p)) == 0 {
			said := fmt.Sprintf("I can use %s for that, but I need the %s", i.name, pretty(p.name))
			if p.description != "" {
				said += ": " + strings.TrimSuffix(p.description, ".")
			}
			return said + "."
		}
	}
	return m.introduce()
}

// introduce says what this model is and what it could do.
func (m *mind) introduce() string {
	said := "I am the demo model: I need no key and no network, and I know no language. "
	if text := oneLine(m.message.text); text != "" {
		said += fmt.Sprintf("You wrote: “%s”. ", shorten(text, maxReason))
	}
	if len(m.tools) == 0 {
		return said + "I was given no tools, so repeating it is all I can do."
	}
	said += "I can use these tools, when a message says what for:\n"
	for i, t := range m.tools {
		if i == maxBullets {
			said += fmt.Sprintf("\n- and %d more", len(m.tools)-maxBullets)
			break
		}
		said += fmt.Sprintf("\n- %s: %s", t.name, oneLine(t.description))
	}
	return said
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// parseJSON returns an object or a list with exact numbers, and nil for any other
// text.
func parseJSON(text string) any {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil
	}
	switch v.(type) {
	case map[string]any, []any:
		return v
	default:
		return nil
	}
}

func sortedKeys(o map[string]any) []string { return slices.Sorted(maps.Keys(o)) }
