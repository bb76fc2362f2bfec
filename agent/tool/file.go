package tool

import (
	"context"
	"encoding/base64"
	"fmt"
	"mime"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

// MaxFileBytes bounds the data URLs of one call together, in characters. They are recorded with the run and sent to the
// model again in every further turn; a file that is larger belongs where a URL leads to it.
const MaxFileBytes = 512 << 10

// files are what a call has attached.
type files struct {
	shown    []agui.ContentPart
	forModel []agui.ContentPart
	bytes    int
}

// File attaches a file that the call has produced. The client is shown it at
// once, and it becomes a part of the result. The address is an http or https URL,
// or a data URL; all data URLs of a call have at most [MaxFileBytes] together.
func (c *Call) File(ctx context.Context, mediaType, address string) error {
	return c.attach(ctx, mediaType, address, false)
}

// Content is [Call.File], and also gives the file to the model itself: in a user
// message behind all tool results of the turn, whatever the provider supports in
// results, so that a model that can see sees it. Clients get no such message.
func (c *Call) Content(ctx context.Context, mediaType, address string) error {
	return c.attach(ctx, mediaType, address, true)
}

func (c *Call) attach(ctx context.Context, mediaType, address string, forModel bool) error {
	part, err := filePart(mediaType, address)
	if err != nil || c == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &c.files
	if part.Source.Type == agui.SourceData {
		if f.bytes+len(address) > MaxFileBytes {
			return fmt.Errorf("file of %d bytes, with those before it %d, limit %d: put it where a URL leads to it", len(address), f.bytes+len(address), MaxFileBytes)
		}
		f.bytes += len(address)
	}
	id := fmt.Sprintf("%s-file-%d", c.info.ID, len(f.shown))
	if err := c.activity(ctx, agui.MessageID(id), ActivityFile, struct {
		ToolCallID agui.ToolCallID `json:"toolCallId"`
		MediaType  string          `json:"mediaType"`
		URL        string          `json:"url"`
		ForModel   bool            `json:"forModel,omitempty"`
	}{c.info.ID, *part.Source.MimeType, address, forModel}); err != nil {
		return err
	}
	f.shown = append(f.shown, part)
	if forModel {
		f.forModel = append(f.forModel, part)
	}
	return nil
}

// filePart is a file as a part of content.
func filePart(mediaType, address string) (agui.ContentPart, error) {
	kind, _, err := mime.ParseMediaType(mediaType)
	if err != nil || !strings.Contains(kind, "/") {
		return agui.ContentPart{}, fmt.Errorf("media type %q: want one like image/png", cut(mediaType, maxFieldBytes, "…"))
	}
	part := agui.ContentPart{Type: agui.PartDocument, Source: &agui.Source{MimeType: &kind}}
	switch top, _, _ := strings.Cut(kind, "/"); top {
	case "image":
		part.Type = agui.PartImage
	case "audio":
		part.Type = agui.PartAudio
	case "video":
		part.Type = agui.PartVideo
	}
	if rest, ok := strings.CutPrefix(address, "data:"); ok {
		header, data, found := strings.Cut(rest, ",")
		if !found || !strings.HasSuffix(header, ";base64") {
			return agui.ContentPart{}, fmt.Errorf("data URL: want data:%s;base64,…", kind)
		}
		if _, err := base64.StdEncoding.DecodeString(data); err != nil {
			return agui.ContentPart{}, fmt.Errorf("data URL: %w", err)
		}
		part.Source.Type, part.Source.Value = agui.SourceData, data
		return part, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return agui.ContentPart{}, fmt.Errorf("address of a file: want an http, https or data URL")
	}
	part.Source.Type, part.Source.Value = agui.SourceURL, u.String()
	return part, nil
}

// in adds the files to a result. The text of a result that has none stays away.
func (f files) in(r Result) Result {
	if len(f.shown) == 0 {
		return r
	}
	var parts []agui.ContentPart
	if r.Content.IsParts() || r.Content.Text() != "" {
		parts = append(parts, r.Content.PartList()...)
	}
	r.Content = agui.Parts(append(parts, f.shown...)...)
	r.ForModel = append(r.ForModel, f.forModel...)
	return r
}
