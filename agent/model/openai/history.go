package openai

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

var (
	// validID is what OpenAI takes back, and wider than what it makes itself: some
	// models are trained on ids like "functions.read_file:0" and want to see them
	// again.
	validID = regexp.MustCompile(`^[!-~]{1,40}$`)
	// validName is a participant's name.
	validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// messages returns the conversation as servers accept it: see the package comment.
func (m *completions) messages(c *model.Conversation) []message {
	out := []message{}
	if len(c.System) > 0 {
		out = append(out, message{Role: "system", Content: strings.Join(c.System, "\n\n")})
	}
	lastUser := -1
	for i, step := range c.Steps {
		if step.Role == agui.RoleUser {
			lastUser = i
		}
	}
	for i, step := range c.Steps {
		if step.Role == agui.RoleUser {
			out = append(out, message{Role: "user", Content: m.content(step.Content.PartList()), Name: name(step.Name)})
			continue
		}
		out = append(out, m.assistant(step, i > lastUser)...)
	}
	for _, stray := range c.Stray {
		m.config.Logger.Debug("tool result left out of the request", "call_id", stray.ToolCallID)
	}
	return out
}

// assistant returns a message of the assistant and, behind it, the results of its
// calls. current says that the turn is still going on.
func (m *completions) assistant(step model.Step, current bool) []message {
	said := message{Role: "assistant", Name: name(step.Name)}
	if text := step.Content.Text(); text != "" {
		said.Content = text
	}
	m.recall(&said, step.Reasoning, current)
	out := []message{said}
	var shown []part
	for _, call := range step.Calls {
		out[0].ToolCalls = append(out[0].ToolCalls, callOut{
			ID: call.ID, Type: "function", Function: functionOut{call.Name, call.Arguments},
			ExtraContent: m.unseal(call.EncryptedValue).ExtraContent,
		})
		var texts []string
		for _, p := range call.Result {
			if media, ok := m.media(p); ok {
				shown = append(shown, media)
				texts = append(texts, fmt.Sprintf("[%s: shown below]", p.Type))
			} else if text := partText(p); text != "" {
				texts = append(texts, text)
			}
		}
		out = append(out, message{Role: "tool", ToolCallID: call.ID, Content: strings.Join(texts, "\n")})
	}
	if out[0].Content == nil && out[0].ToolCalls == nil {
		return nil // servers refuse a message that says nothing
	}
	if len(shown) > 0 {
		// A tool's message holds text alone; the user's may show something.
		out = append(out, message{Role: "user", Content: slices.Concat([]part{{Type: "text", Text: model.ResultMedia}}, shown)})
	}
	return out
}

// content is a string where that is enough: not every server takes parts.
func (m *completions) content(parts []agui.ContentPart) any {
	var out []part
	var texts []string
	shows := false
	for _, p := range parts {
		if media, ok := m.media(p); ok {
			shows = true
			out = append(out, media)
		} else if text := partText(p); text != "" {
			texts = append(texts, text)
			out = append(out, part{Type: "text", Text: text})
		}
	}
	if shows {
		return out
	}
	return strings.Join(texts, "\n")
}

// partText is what stands for a part where only text can.
func partText(p agui.ContentPart) string {
	if p.Type == agui.PartText {
		return p.Text
	}
	if p.Source == nil {
		return "" // a part of a later version
	}
	if media, ok := model.MediaOf(p); ok {
		if text, ok := media.Text(); ok {
			return text
		}
	}
	// The model should know that there is something it does not see.
	return fmt.Sprintf("[%s left out: it cannot be shown to this model]", p.Type)
}

// media returns a part that shows something, if the model takes it.
func (m *completions) media(p agui.ContentPart) (out part, ok bool) {
	if !slices.Contains(m.config.Media, p.Type) {
		return out, false
	}
	media, ok := model.MediaOf(p)
	if !ok {
		return out, false
	}
	switch {
	case p.Type == agui.PartImage && media.Data != "":
		mimeType := media.MimeType
		if mimeType == "" {
			mimeType = "image/png"
		}
		return part{Type: "image_url", ImageURL: &imageURL{URL: "data:" + mimeType + ";base64," + media.Data}}, true
	case p.Type == agui.PartImage && media.URL != "":
		return part{Type: "image_url", ImageURL: &imageURL{URL: media.URL}}, true
	case p.Type == agui.PartAudio && media.Data != "":
		format, ok := map[string]string{
			"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3",
		}[media.MimeType]
		return part{Type: "input_audio", InputAudio: &inputAudio{Data: media.Data, Format: format}}, ok
	case p.Type == agui.PartDocument && media.Handle != "":
		theirs := media.Provider != "" && media.Provider == strings.ToLower(m.config.Provider)
		return part{Type: "file", File: &file{ID: media.Handle}}, theirs
	case p.Type == agui.PartDocument && media.MimeType == "application/pdf" && media.Data != "":
		return part{Type: "file", File: &file{Name: "document.pdf", Data: "data:application/pdf;base64," + media.Data}}, true
	}
	return out, false
}

// name returns a participant's name if servers take it.
func name(n *string) string {
	if n == nil || !validName.MatchString(*n) {
		return ""
	}
	return *n
}

// sealed is the form in which a provider's artefact lies in a history. It names
// the host it is from, because others refuse what is not theirs.
type sealed struct {
	Host string `json:"host"`
	// ExtraContent is a call's.
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
	// ReasoningDetails is a message's.
	ReasoningDetails []detail `json:"reasoning_details,omitempty"`
	// Member is the one in which the text of the reasoning came, and goes back.
	Member string `json:"member,omitempty"`
}

func (m *completions) seal(s sealed) string {
	s.Host = m.host
	out, err := marshal(s)
	if err != nil {
		return ""
	}
	return string(out)
}

func (m *completions) unseal(value string) sealed {
	var s sealed
	if value == "" || json.Unmarshal([]byte(value), &s) != nil || s.Host != m.host {
		return sealed{}
	}
	return s
}

// recall reminds a provider of its own thoughts.
func (m *completions) recall(said *message, thoughts []model.Reasoning, current bool) {
	for _, thought := range thoughts {
		s := m.unseal(thought.EncryptedValue)
		said.ReasoningDetails = append(said.ReasoningDetails, s.ReasoningDetails...)
		if !m.config.ReturnReasoning || !current {
			continue
		}
		switch s.Member {
		case memberContent:
			said.ReasoningContent += thought.Text
		case memberReasoning:
			said.Reasoning += thought.Text
		}
	}
}
