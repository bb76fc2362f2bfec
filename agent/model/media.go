package model

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

// Media is the data of a content part.
type Media struct {
	// MimeType is what the data says that it is, else what the client says; it
	// may be empty. Clients name a PNG that is a JPEG, and providers refuse it.
	MimeType string
	// Data is standard base64, URL an http or https address, Handle the name
	// under which Provider keeps it. One of the three is set.
	Data, URL, Handle, Provider string
}

// MediaOf returns the data of a part. ok is false when there is none that could be
// sent: a part of text or of a later version, data that is not base64, an address
// that is not on the web. A data: address is data.
func MediaOf(p agui.ContentPart) (m Media, ok bool) {
	s := p.Source
	if s == nil {
		return m, false
	}
	if s.MimeType != nil {
		m.MimeType = mediaType(*s.MimeType)
	}
	switch s.Type {
	case agui.SourceFile:
		m.Handle = s.Value
		if s.Provider != nil {
			m.Provider = strings.ToLower(*s.Provider)
		}
		return m, s.Value != ""
	case agui.SourceURL, agui.SourceData:
		if rest, isData := strings.CutPrefix(s.Value, "data:"); isData {
			return m.embedded(rest)
		}
		if s.Type == agui.SourceData {
			return m.encoded(s.Value)
		}
		u, err := url.Parse(s.Value)
		m.URL = s.Value
		return m, err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	}
	return m, false
}

// embedded reads what stands behind the scheme of a data: address.
func (m Media) embedded(rest string) (Media, bool) {
	head, data, ok := strings.Cut(rest, ",")
	if !ok {
		return m, false
	}
	head, isBase64 := strings.CutSuffix(head, ";base64")
	if head = mediaType(head); head != "" {
		m.MimeType = head
	}
	if isBase64 {
		return m.encoded(data)
	}
	plain, err := url.PathUnescape(data)
	if err != nil {
		return m, false
	}
	return m.encoded(base64.StdEncoding.EncodeToString([]byte(plain)))
}

// encoded takes base64 in any of its forms.
func (m Media) encoded(data string) (Media, bool) {
	canonical := strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\r', '\n':
			return -1
		case '-': // the alphabet for addresses
			return '+'
		case '_':
			return '/'
		}
		return r
	}, data)
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(canonical, "="))
	if err != nil || len(raw) == 0 {
		return m, false
	}
	if found := sniff(raw); found != "" {
		m.MimeType = found
	}
	m.Data = canonical
	if len(canonical) != base64.StdEncoding.EncodedLen(len(raw)) { // without its padding
		m.Data = base64.StdEncoding.EncodeToString(raw)
	}
	return m, true
}

// Bytes returns the data, decoded.
func (m Media) Bytes() []byte {
	raw, _ := base64.StdEncoding.DecodeString(m.Data) // it was encoded here
	return raw
}

// Text returns the data of what is text to a model, whatever its format.
func (m Media) Text() (string, bool) {
	isText := strings.HasPrefix(m.MimeType, "text/")
	if !isText {
		_, subtype, _ := strings.Cut(m.MimeType, "/")
		switch subtype {
		case "json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-javascript", "typescript", "sql", "csv", "markdown", "x-sh":
			isText = true
		default:
			isText = strings.HasSuffix(subtype, "+json") || strings.HasSuffix(subtype, "+xml")
		}
	}
	if !isText || m.Data == "" || m.MimeType == "image/svg+xml" {
		return "", false
	}
	return withoutNUL(strings.ToValidUTF8(string(m.Bytes()), "\ufffd")), true
}

// mediaType is a media type without its parameters.
func mediaType(given string) string {
	given, _, _ = strings.Cut(given, ";")
	given = strings.ToLower(strings.TrimSpace(given))
	if given == "image/jpg" {
		return "image/jpeg"
	}
	return given
}

// sniff names the formats that can be told by how they begin.
func sniff(raw []byte) string {
	switch {
	case bytes.HasPrefix(raw, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(raw, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(raw, []byte("GIF87a")), bytes.HasPrefix(raw, []byte("GIF89a")):
		return "image/gif"
	case len(raw) >= 12 && string(raw[:4]) == "RIFF" && string(raw[8:12]) == "WEBP":
		return "image/webp"
	case len(raw) >= 12 && string(raw[:4]) == "RIFF" && string(raw[8:12]) == "WAVE":
		return "audio/wav"
	case bytes.HasPrefix(raw, []byte("%PDF-")):
		return "application/pdf"
	}
	return ""
}
