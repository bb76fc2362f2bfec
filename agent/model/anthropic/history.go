package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif"  // dimensions
	_ "image/jpeg" // dimensions
	_ "image/png"  // dimensions
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// opening stands where a conversation does not begin with the user.
	opening = "[The conversation begins here.]"
	// goOn stands where it does not end with the user. The API would take what the
	// assistant said last for the beginning of what it should say now.
	goOn = "[Go on.]"

	// maxImage bounds the base64 text of an image: 5 MiB, the least that any
	// platform of the API takes.
	maxImage = 5 << 20
	// maxImageSide is the largest width or height in pixels.
	maxImageSide = 8000
	// maxDocument bounds the base64 text of a document: a request may have 32 MB.
	maxDocument = 24 << 20
)

// validID is what the API takes back.
var validID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// messages returns the conversation as the API accepts it: see the package comment.
func (m *messages) messages(c *model.Conversation) []message {
	var out []message
	add := func(role string, blocks ...block) {
		if len(blocks) == 0 {
			return
		}
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, blocks...)
			return
		}
		if len(out) == 0 && role == "assistant" {
			out = append(out, message{Role: "user", Content: []block{{Type: blockText, Text: opening}}})
		}
		out = append(out, message{Role: role, Content: blocks})
	}
	for _, step := range c.Steps {
		if step.Role == agui.RoleUser {
			add("user", m.blocks(step.Content.PartList())...)
			continue
		}
		said, results := m.assistant(step)
		add("assistant", said...)
		add("user", results...)
	}
	switch {
	case len(out) == 0:
		add("user", block{Type: blockText, Text: opening})
	case out[len(out)-1].Role == "assistant":
		add("user", block{Type: blockText, Text: goOn})
	}
	for _, stray := range c.Stray {
		m.config.Logger.Debug("tool result left out of the request", "call_id", stray.ToolCallID)
	}
	return out
}

// assistant returns the blocks of a message of the assistant and the results of
// its calls.
func (m *messages) assistant(step model.Step) (said, results []block) {
	text := step.Content.Text()
	if strings.TrimSpace(text) == "" && len(step.Calls) == 0 {
		return nil, nil // nothing but thinking, which the API does not take for a message
	}
	var calls []block
	for _, call := range step.Calls {
		calls = append(calls, block{Type: blockCall, ID: call.ID, Name: call.Name, Input: json.RawMessage(call.Arguments)})
		result := block{Type: blockResult, ToolUseID: call.ID, Content: m.blocks(call.Result), IsError: call.Failed}
		if result.IsError && len(result.Content) == 0 {
			result.Content = []block{{Type: blockText, Text: "Error"}} // the API wants an error to say something
		}
		results = append(results, result)
	}
	var thoughts []sealedBlock
	for _, r := range step.Reasoning {
		thoughts = append(thoughts, m.unseal(r.EncryptedValue)...)
	}
	if said, ok := interleaved(thoughts, text, calls); ok {
		return said, results
	}
	for _, t := range thoughts {
		if b, ok := t.block(); ok {
			said = append(said, b)
		}
	}
	if strings.TrimSpace(text) != "" {
		said = append(said, block{Type: blockText, Text: text})
	}
	return append(said, calls...), results
}

// blocks returns what the user or a tool shows.
func (m *messages) blocks(parts []agui.ContentPart) []block {
	var out []block
	for _, p := range parts {
		if b, ok := m.block(p); ok {
			out = append(out, b)
		}
	}
	return out
}

func (m *messages) block(p agui.ContentPart) (block, bool) {
	if p.Type == agui.PartText {
		return block{Type: blockText, Text: p.Text}, strings.TrimSpace(p.Text) != ""
	}
	if p.Source == nil {
		return block{}, false // a part of a later version
	}
	why := "it cannot be shown to this model"
	if media, ok := model.MediaOf(p); ok {
		if text, ok := media.Text(); ok {
			return block{Type: blockText, Text: text}, strings.TrimSpace(text) != ""
		}
		if slices.Contains(m.config.Media, p.Type) {
			switch s, problem := m.source(p.Type, media); {
			case problem != "":
				why = problem
			case p.Type == agui.PartImage:
				return block{Type: blockImage, Source: s}, true
			case p.Type == agui.PartDocument:
				return block{Type: blockDocument, Source: s}, true
			}
		}
	}
	// The model should know that there is something it does not see.
	return block{Type: blockText, Text: fmt.Sprintf("[%s left out: %s]", p.Type, why)}, true
}

// source says where the data of an image or a document is, or why it cannot be
// sent.
func (m *messages) source(kind agui.PartType, media model.Media) (s *source, problem string) {
	switch {
	case media.URL != "":
		return &source{Type: "url", URL: media.URL}, ""
	case media.Handle != "" && (media.Provider == "anthropic" || media.Provider == strings.ToLower(m.config.Provider)) && media.Provider != "":
		return &source{Type: "file", FileID: media.Handle}, ""
	case media.Handle != "":
		return nil, "another provider keeps it"
	}
	inline := &source{Type: "base64", MediaType: media.MimeType, Data: media.Data}
	if kind == agui.PartDocument {
		switch {
		case media.MimeType != "application/pdf":
			return nil, "this model reads PDF and text alone"
		case len(media.Data) > maxDocument:
			return nil, "it is too large"
		}
		return inline, ""
	}
	switch media.MimeType {
	case "image/png", "image/jpeg", "image/gif":
		// A file that only begins like one would be refused with the whole thread.
		config, format, err := image.DecodeConfig(bytes.NewReader(media.Bytes()))
		switch {
		case err != nil || "image/"+format != media.MimeType:
			return nil, "it is damaged"
		case max(config.Width, config.Height) > maxImageSide:
			return nil, fmt.Sprintf("it has more than %d pixels on a side", maxImageSide)
		}
	case "image/webp":
	default:
		return nil, "this model sees PNG, JPEG, GIF and WebP alone"
	}
	if len(media.Data) > maxImage {
		return nil, "it is too large"
	}
	return inline, ""
}
