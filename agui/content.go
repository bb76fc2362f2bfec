package agui

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Content is what a message or a tool result says: text, or a list of parts, or
// nothing (the zero value). Empty text, an empty list and nothing are three
// different contents.
type Content struct {
	text  string
	parts []ContentPart
	kind  contentKind
}

type contentKind byte

const (
	contentAbsent contentKind = iota
	contentText
	contentParts
)

// Text returns content that is text.
func Text(s string) Content { return Content{text: s, kind: contentText} }

// Parts returns content that is a list of parts. It keeps the slice.
func Parts(parts ...ContentPart) Content { return Content{parts: parts, kind: contentParts} }

// IsZero reports whether there is no content at all.
func (c Content) IsZero() bool { return c.kind == contentAbsent }

// IsParts reports whether the content is a list of parts, be it empty.
func (c Content) IsParts() bool { return c.kind == contentParts }

// Text returns the text, or that of all text parts joined.
func (c Content) Text() string {
	if c.kind != contentParts {
		return c.text
	}
	var all strings.Builder
	for _, p := range c.parts {
		if p.Type == PartText {
			all.WriteString(p.Text)
		}
	}
	return all.String()
}

// PartList returns the parts; text is one text part, and nothing is no part.
// The slice must not be changed.
func (c Content) PartList() []ContentPart {
	if c.kind == contentText {
		return []ContentPart{TextPart(c.text)}
	}
	return c.parts
}

// Equal reports whether both contents are written alike.
func (c Content) Equal(other Content) bool {
	if c.kind != other.kind || c.text != other.text || len(c.parts) != len(other.parts) {
		return false
	}
	for i := range c.parts {
		if !reflect.DeepEqual(c.parts[i], other.parts[i]) {
			return false
		}
	}
	return true
}

// MarshalJSON writes a string, a list, or null when there is no content.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.IsZero() {
		return []byte("null"), nil
	}
	return marshal(c.encode)
}

// UnmarshalJSON reads a string, a list or null.
func (c *Content) UnmarshalJSON(data []byte) error {
	if _, problem := check(data, 0); problem != "" {
		return &DecodeError{Rule: RuleDocument, Reason: problem}
	}
	r := newReader()
	defer r.release()
	var content Content
	s := scanner{data: data}
	s.peek()
	start := s.pos
	s.value(0)
	if value := data[start:s.pos]; value[0] != 'n' {
		content = object{r: r}.contentOf("", value, RuleUnion, (*ContentPart).decode)
	}
	if r.err != nil {
		return r.err
	}
	*c = content
	return nil
}

func (c Content) encode(w *writer) {
	if c.kind != contentParts {
		w.buf = appendString(w.buf, c.text)
		return
	}
	w.elements(len(c.parts), func(i int) { c.parts[i].encode(w) })
}

// content writes a required content; the zero Content is "".
func (w *writer) content(key string, c Content) {
	w.key(key)
	w.path = append(w.path, step{key: key})
	c.encode(w)
	w.path = w.path[:len(w.path)-1]
}

// resultContent reads the content of TOOL_CALL_RESULT.
func (o object) resultContent(key string) Content {
	value, ok := o.find(key)
	if !ok {
		o.fail(RuleRequired, key, "is missing")
		return Content{}
	}
	return o.contentOf(key, value, RuleUnion, (*ContentPart).decodeResult)
}

// messageContent reads the content of a message.
func (o object) messageContent(key string, parts, required bool) Content {
	value, ok := o.find(key)
	if !ok {
		if required {
			o.fail(RuleRequired, key, "is missing")
		}
		return Content{}
	}
	if !parts {
		return o.contentOf(key, value, RuleKind, nil)
	}
	return o.contentOf(key, value, RuleKind, (*ContentPart).decode)
}

// contentOf reads text or, when there is a way to decode them, parts.
func (o object) contentOf(key string, value []byte, rule string, decode func(*ContentPart, object)) Content {
	switch {
	case value[0] == '"':
		return Text(unquote(value))
	case value[0] == '[' && decode != nil:
		c := Content{kind: contentParts}
		o.within(key, RulePart, func() { c.parts = readElements(o.r, value, decode) })
		return c
	}
	o.mismatch(rule, key, value, '"')
	return Content{}
}

// PartType says what a content part is.
type PartType string

// The parts of version 1.0.
const (
	PartText     PartType = "text"
	PartImage    PartType = "image"
	PartAudio    PartType = "audio"
	PartVideo    PartType = "video"
	PartDocument PartType = "document"
)

// ContentPart is one part of a user's message or of a tool's result.
//
// A part of a type that is not listed has Type and Extra only: everything it
// came with is in Extra, and a consumer skips it.
type ContentPart struct {
	Type PartType
	// Text is what a text part says.
	Text string
	// Source is where the other parts have their data.
	Source *Source
	ID     *string
	// Metadata may be any JSON but null.
	Metadata json.RawMessage
	Extra    Object
}

// SourceType says where the data of a part is.
type SourceType string

// The sources of version 1.0.
const (
	SourceData SourceType = "data"
	SourceURL  SourceType = "url"
	SourceFile SourceType = "file"
)

// Source is where a part has its data.
//
// A source of a type that is not listed has Type and Extra only, and a consumer
// skips its part.
type Source struct {
	Type SourceType
	// Value is base64 text, a URL, or a provider's handle, which is opaque and
	// never fetched.
	Value string
	// MimeType is required for SourceData.
	MimeType *string
	// Provider is the vendor that a handle belongs to; SourceFile only.
	Provider *string
	Extra    Object
}

// TextPart returns a text part.
func TextPart(text string) ContentPart { return ContentPart{Type: PartText, Text: text} }

// DataPart returns a part that holds its data, in base64.
func DataPart(t PartType, mimeType, base64 string) ContentPart {
	return ContentPart{Type: t, Source: &Source{Type: SourceData, Value: base64, MimeType: &mimeType}}
}

// URLPart returns a part whose data is at a URL.
func URLPart(t PartType, url string) ContentPart {
	return ContentPart{Type: t, Source: &Source{Type: SourceURL, Value: url}}
}

// FilePart returns a part whose data a provider holds under a handle.
func FilePart(t PartType, handle string) ContentPart {
	return ContentPart{Type: t, Source: &Source{Type: SourceFile, Value: handle}}
}

// media reports whether the part has a source.
func (t PartType) media() bool {
	switch t {
	case PartImage, PartAudio, PartVideo, PartDocument:
		return true
	}
	return false
}

func (p *ContentPart) encode(w *writer) {
	if p.Type != PartText && !p.Type.media() {
		bare := p.Text == "" && p.Source == nil && p.ID == nil && p.Metadata == nil
		w.unknown("type", string(p.Type), p.Extra, bare)
		return
	}
	mark := w.begin()
	w.str("type", string(p.Type))
	switch {
	case p.Type == PartText:
		if p.Source != nil {
			w.fail(RulePart, "source", "does not belong to a text part")
		}
		w.str("text", p.Text)
	case p.Text != "":
		w.fail(RulePart, "text", "belongs to a text part only")
	case p.Source == nil:
		w.fail(RulePart, "source", "is missing")
	default:
		nested(w, "source", p.Source, (*Source).encode)
	}
	optString(w, "id", p.ID)
	w.optRaw("metadata", p.Metadata)
	w.end(mark, p.Extra)
}

func (p *ContentPart) decode(o object) {
	p.Type = PartType(o.kind("type"))
	switch {
	case p.Type == PartText:
		p.Text = o.str("text")
		p.ID = readOptString[string](o, "id")
		p.Metadata = o.optRaw("metadata")
	case p.Type.media():
		if value, ok := o.typed("source", '{', true); ok {
			p.Source = new(readNested(o, "source", "", value, (*Source).decode))
		}
		p.ID = readOptString[string](o, "id")
		p.Metadata = o.tolerantRaw("metadata")
	default:
		p.Extra = o.unknown()
		return
	}
	p.Extra = o.extra()
}

// decodeResult reads a part of a tool's result. The null metadata of older
// producers is tolerated in messages only.
func (p *ContentPart) decodeResult(o object) {
	p.decode(o)
	if p.Type.media() {
		p.Metadata = o.optRaw("metadata")
	}
}

func (s *Source) encode(w *writer) {
	switch s.Type {
	case SourceData, SourceURL, SourceFile:
	default:
		bare := s.Value == "" && s.MimeType == nil && s.Provider == nil
		w.unknown("type", string(s.Type), s.Extra, bare)
		return
	}
	mark := w.begin()
	w.str("type", string(s.Type))
	w.str("value", s.Value)
	if s.Type == SourceData && s.MimeType == nil {
		w.fail(RulePart, "mimeType", "is missing")
	}
	optString(w, "mimeType", s.MimeType)
	if s.Type == SourceFile {
		optString(w, "provider", s.Provider)
	} else if s.Provider != nil {
		w.fail(RulePart, "provider", "belongs to a file source only")
	}
	w.end(mark, s.Extra)
}

func (s *Source) decode(o object) {
	s.Type = SourceType(o.kind("type"))
	switch s.Type {
	case SourceData:
		s.Value = o.str("value")
		s.MimeType = new(o.str("mimeType"))
	case SourceURL:
		s.Value = o.str("value")
		s.MimeType = readOptString[string](o, "mimeType")
	case SourceFile:
		s.Value = o.str("value")
		s.MimeType = readOptString[string](o, "mimeType")
		s.Provider = readOptString[string](o, "provider")
	default:
		s.Extra = o.unknown()
		return
	}
	s.Extra = o.extra()
}

// MarshalJSON writes the members that the part's type has.
func (p ContentPart) MarshalJSON() ([]byte, error) { return marshal(p.encode) }

// UnmarshalJSON reads a part of any type.
func (p *ContentPart) UnmarshalJSON(data []byte) error {
	return unmarshal(data, p, (*ContentPart).decode)
}

// MarshalJSON writes the members that the source's type has.
func (s Source) MarshalJSON() ([]byte, error) { return marshal(s.encode) }

// UnmarshalJSON reads a source of any type.
func (s *Source) UnmarshalJSON(data []byte) error {
	return unmarshal(data, s, (*Source).decode)
}
