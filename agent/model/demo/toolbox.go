package demo

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/agui"
)

// instrument is an offered tool, as far as its name and schema tell.
type instrument struct {
	name        string
	description string
	verb        string   // the first word of the name
	words       []string // the others
	params      []param
}

// param is a parameter of a tool.
type param struct {
	name        string
	kind        kind
	schema      string // the schema's type
	required    bool
	description string
	enum        []string
}

// kind is what a parameter means, by its name.
type kind int

const (
	kindOther kind = iota
	kindID
	kindFile
	kindQuery
	kindReason
	kindMoney // in cents or in whole units, by the name
	kindStart // the line to begin with
	kindCount
)

// readingVerbs begin the names of tools that only look. Others act, and are used
// only on command.
const readingVerbs = " check count describe fetch find get grep list load lookup query read retrieve search show view "

// verbsLike are other words for what tools are called.
var verbsLike = map[string][]string{
	"find":     {"look", "lookup", "check", "status", "compare", "track", "get", "show", "where", "details"},
	"get":      {"show", "what", "fetch", "check", "look", "find", "compare"},
	"fetch":    {"get", "load", "show"},
	"list":     {"ls", "show", "what", "which", "all", "there", "available"},
	"search":   {"find", "look", "where", "about", "how", "why", "explain"},
	"read":     {"open", "show", "print", "cat", "quote", "summarise", "summarize", "contain", "contains", "say", "says", "in"},
	"refund":   {"reimburse"},
	"cancel":   {"stop", "abort"},
	"delete":   {"remove", "drop"},
	"create":   {"make", "add", "new"},
	"add":      {"create", "put"},
	"set":      {"change", "switch", "make"},
	"update":   {"change", "set", "edit"},
	"send":     {"mail", "message"},
	"book":     {"reserve"},
	"schedule": {"plan", "book"},
}

func (i *instrument) acts() bool { return !strings.Contains(readingVerbs, " "+i.verb+" ") }

// calledBy reports whether one of the message's words is the tool's verb, and
// whether one is another word for it.
func (i *instrument) calledBy(m *message) (exact, alike bool) {
	exact = m.has(i.verb) || i.verb == "search" && m.has("mention", "mentions", "mentioned", "grep")
	return exact, m.has(verbsLike[i.verb]...)
}

func (i *instrument) param(match func(param) bool) (param, bool) {
	at := slices.IndexFunc(i.params, match)
	if at < 0 {
		return param{}, false
	}
	return i.params[at], true
}

// toolbox reads the offered tools; what has no readable name or schema is left out.
func toolbox(offered []agui.Tool) []*instrument {
	var all []*instrument
	for _, t := range offered {
		words := nameWords(t.Name)
		if len(words) == 0 {
			continue
		}
		var schema struct {
			Properties map[string]struct {
				Type        json.RawMessage `json:"type"`
				Description string          `json:"description"`
				Enum        []any           `json:"enum"`
			} `json:"properties"`
			Required []string `json:"required"`
		}
		if len(t.Parameters) > 0 && json.Unmarshal(t.Parameters, &schema) != nil {
			continue
		}
		i := &instrument{name: t.Name, description: t.Description, verb: words[0], words: words[1:]}
		for name, s := range schema.Properties {
			p := param{
				name: name, kind: kindOf(name), schema: schemaType(s.Type), required: slices.Contains(schema.Required, name),
				description: s.Description,
			}
			for _, v := range s.Enum {
				if text, ok := v.(string); ok {
					p.enum = append(p.enum, text)
				}
			}
			i.params = append(i.params, p)
		}
		slices.SortFunc(i.params, func(a, b param) int { return strings.Compare(a.name, b.name) })
		all = append(all, i)
	}
	return all
}

// schemaType returns the type of a schema, the first that is not null where there
// are several.
func schemaType(raw json.RawMessage) string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var several []string
	if json.Unmarshal(raw, &several) == nil {
		for _, t := range several {
			if t != "null" {
				return t
			}
		}
	}
	return "string"
}

// nameWords splits find_order, find-order and findOrder.
func nameWords(name string) []string {
	var spaced strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			spaced.WriteByte(' ')
		}
		if r == '_' || r == '-' || r == '.' {
			r = ' '
		}
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(spaced.String())
}

func kindOf(name string) kind {
	words := nameWords(name)
	has := func(list ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	switch {
	case has("cents", "amount", "price", "sum"):
		return kindMoney
	case has("id", "ids", "number", "ref", "reference", "key"):
		return kindID
	case has("start", "offset", "from"):
		return kindStart
	case has("max", "limit", "count", "lines", "top"):
		return kindCount
	case has("path", "file", "filename", "folder", "dir", "directory"):
		return kindFile
	case has("query", "q", "search", "term", "terms", "topic", "keyword", "keywords", "question", "pattern", "phrase"):
		return kindQuery
	case has("reason", "why", "note", "comment", "message", "body", "description", "summary", "content", "text", "instructions"):
		return kindReason
	default:
		return kindOther
	}
}
