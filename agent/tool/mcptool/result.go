package mcptool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// result is what the model reads of a server's answer.
func (s *Server) result(r *mcp.CallToolResult) (tool.Result, error) {
	parts := partsOf(r.Content)
	if r.IsError {
		message := strings.TrimSpace(agui.Parts(parts...).Text())
		if message == "" {
			message = "The tool failed and did not say why."
		}
		return tool.Result{}, &tool.Error{Message: message}
	}
	if r.StructuredContent != nil {
		structured, err := encode(r.StructuredContent)
		if err != nil {
			return tool.Result{}, fmt.Errorf("structured content: %w", err)
		}
		// Servers repeat it as text, for clients that don't know it.
		if i := indexOf(parts, structured); i >= 0 {
			parts = slices.Delete(parts, i, i+1)
		}
		parts = slices.Insert(parts, 0, agui.TextPart(string(structured)))
	}
	if len(parts) == 1 && parts[0].Type == agui.PartText {
		return tool.Text(parts[0].Text), nil
	}
	return tool.Result{Content: agui.Parts(parts...)}, nil
}

func partsOf(list []mcp.Content) []agui.ContentPart {
	parts := make([]agui.ContentPart, 0, len(list))
	for _, c := range list {
		switch c := c.(type) {
		case *mcp.TextContent:
			parts = append(parts, agui.TextPart(c.Text))
		case *mcp.ImageContent:
			parts = append(parts, dataPart(c.MIMEType, c.Data))
		case *mcp.AudioContent:
			parts = append(parts, dataPart(c.MIMEType, c.Data))
		case *mcp.ResourceLink:
			parts = append(parts, linkPart(c))
		case *mcp.EmbeddedResource:
			if c.Resource == nil {
				continue
			}
			if len(c.Resource.Blob) > 0 {
				parts = append(parts, dataPart(c.Resource.MIMEType, c.Resource.Blob))
			} else {
				parts = append(parts, agui.TextPart(c.Resource.Text))
			}
		}
	}
	return parts
}

func dataPart(mimeType string, data []byte) agui.ContentPart {
	if mimeType == "" {
		mimeType = "application/octet-stream"
	}
	return agui.DataPart(kindOf(mimeType), mimeType, base64.StdEncoding.EncodeToString(data))
}

func kindOf(mimeType string) agui.PartType {
	switch top, _, _ := strings.Cut(mimeType, "/"); top {
	case "image":
		return agui.PartImage
	case "audio":
		return agui.PartAudio
	case "video":
		return agui.PartVideo
	}
	return agui.PartDocument
}

// linkPart is a resource that is elsewhere: a part if it is on the web, and its address as text if only the server knows it.
func linkPart(l *mcp.ResourceLink) agui.ContentPart {
	if u, err := url.Parse(l.URI); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		part := agui.URLPart(kindOf(l.MIMEType), l.URI)
		if l.MIMEType != "" {
			part.Source.MimeType = &l.MIMEType
		}
		return part
	}
	return agui.TextPart(strings.TrimSpace("Resource " + l.URI + " " + l.Name))
}

// indexOf finds the text that is the JSON, -1 if none is.
func indexOf(parts []agui.ContentPart, structured []byte) int {
	for i, p := range parts {
		if p.Type != agui.PartText {
			continue
		}
		var value any
		decoder := json.NewDecoder(strings.NewReader(p.Text))
		decoder.UseNumber()
		if decoder.Decode(&value) != nil || decoder.More() {
			continue
		}
		if again, err := encode(value); err == nil && bytes.Equal(again, structured) {
			return i
		}
	}
	return -1
}

// encode is JSON in the one form in which equal values are equal, for a model to read.
func encode(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
