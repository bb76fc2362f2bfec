package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui/sse"
)

// event is an event of a streamed answer, or a whole answer. Only what is used is
// read, and nothing is believed to have the type that the protocol says.
type event struct {
	Type    model.Loose     `json:"type"`
	Index   model.Index     `json:"index"`
	Error   json.RawMessage `json:"error"`
	Message *answer         `json:"message"`
	Block   *contentBlock   `json:"content_block"`
	Delta   *delta          `json:"delta"`
	Usage   json.RawMessage `json:"usage"`
}

// answer is a message, which is empty where a stream begins.
type answer struct {
	Content     []contentBlock  `json:"content"`
	StopReason  model.Loose     `json:"stop_reason"`
	StopDetails json.RawMessage `json:"stop_details"`
	Usage       json.RawMessage `json:"usage"`
}

type contentBlock struct {
	Type      model.Loose     `json:"type"`
	Text      model.Loose     `json:"text"`
	Thinking  model.Loose     `json:"thinking"`
	Signature model.Loose     `json:"signature"`
	Data      model.Loose     `json:"data"`
	ID        model.Loose     `json:"id"`
	Name      model.Loose     `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type delta struct {
	Type        model.Loose     `json:"type"`
	Text        model.Loose     `json:"text"`
	Thinking    model.Loose     `json:"thinking"`
	Signature   model.Loose     `json:"signature"`
	PartialJSON model.Loose     `json:"partial_json"`
	StopReason  model.Loose     `json:"stop_reason"`
	StopDetails json.RawMessage `json:"stop_details"`
}

const tooLong = "the provider sent a longer piece than is accepted (16 MiB)"

// errLeft says that whoever reads the deltas has left the loop.
var errLeft = errors.New("the reader has left")

// stream is one answer on its way.
type stream struct {
	model        *messages
	conversation *model.Conversation
	response     *http.Response
	yield        func(model.Delta, error) bool

	blocks []*received
	usage  usage
	// showed says that thinking has been shown, said that anything else has come.
	showed, said bool
	// reason says that a stop reason has come, finished that nothing of the answer
	// has come since.
	reason, finished bool
	remembered       string
}

// received is a block on its way.
type received struct {
	index     int
	kind      string
	id        string
	input     json.RawMessage // what stood at the start
	fragments bool            // whether anything of the input has been passed on
	length    int             // of a text
	thinking  strings.Builder
	signature string
	data      string
}

func (r *received) sealed() sealedBlock {
	return sealedBlock{Type: r.kind, Thinking: r.thinking.String(), Signature: r.signature, Data: r.data, Length: r.length}
}

// events reads an event stream to its end.
func (s *stream) events(w *model.Watch) error {
	// The standard drops an event that no empty line ends. Servers forget that
	// line at the end; a cut event is not valid JSON and caught by that.
	reader := sse.NewReader(io.MultiReader(w, strings.NewReader("\n\n")), maxLine)
	for {
		e, err := reader.Next()
		switch {
		case err == io.EOF && !s.finished:
			return &model.Error{Kind: model.KindProtocol, Message: s.unfinished()}
		case err == io.EOF:
			return nil
		case err != nil && s.finished && !w.Left():
			return nil // the answer is whole; how the connection ended is nobody's concern
		case errors.Is(err, sse.ErrTooLong):
			return &model.Error{Kind: model.KindProtocol, Message: tooLong, Err: err}
		case err != nil:
			return err
		}
		data := bytes.TrimSpace(e.Data)
		if bytes.HasPrefix(data, []byte("[DONE]")) { // a word of another protocol
			return s.stop(w)
		}
		if e.Name == "error" && !bytes.HasPrefix(data, []byte("{")) {
			return s.model.failed(s.response, model.Report{Message: string(data)})
		}
		if !bytes.HasPrefix(data, []byte("{")) {
			continue // somebody's keep-alive
		}
		var ev event
		if err := json.Unmarshal(data, &ev); err != nil {
			return &model.Error{Kind: model.KindProtocol, Message: "the provider sent a damaged piece of its answer", Err: err}
		}
		switch {
		case isError(ev.Error) || e.Name == "error" || ev.Type == "error":
			return s.model.failed(s.response, model.ParseReport(data))
		case ev.Type == "message_stop":
			return s.stop(w)
		}
		if err := s.event(&ev); err != nil {
			return err
		}
		if s.finished {
			w.Finished()
		}
	}
}

// stop ends a stream that says that it ends.
func (s *stream) stop(w *model.Watch) error {
	if !s.reason {
		return &model.Error{Kind: model.KindProtocol, Message: s.unfinished()}
	}
	w.Drain()
	return nil
}

// document reads an answer that came whole.
func (s *stream) document(w *model.Watch) error {
	data, err := io.ReadAll(io.LimitReader(w, maxLine+1))
	if err != nil {
		return err
	}
	if len(data) > maxLine {
		return &model.Error{Kind: model.KindProtocol, Message: tooLong}
	}
	var whole struct {
		answer
		Type  model.Loose     `json:"type"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &whole); err != nil {
		return &model.Error{Kind: model.KindProtocol, Message: "the provider's answer is damaged", Err: err}
	}
	if isError(whole.Error) || whole.Type == "error" {
		return s.model.failed(s.response, model.ParseReport(data))
	}
	for i := range whole.Content {
		if err := s.begin(i, &whole.Content[i]); err != nil {
			return err
		}
	}
	s.usage.add(whole.Usage)
	if err := s.end(string(whole.StopReason), whole.StopDetails); err != nil {
		return err
	}
	if !s.finished {
		return &model.Error{Kind: model.KindProtocol, Message: s.unfinished()}
	}
	return nil
}

func (s *stream) unfinished() string {
	if t := s.response.Header.Get("Content-Type"); !strings.HasPrefix(t, "text/event-stream") {
		return fmt.Sprintf("the provider's answer is not a stream of events (content type %q) or ended before it was finished", t)
	}
	return "the provider's answer ended before it was finished"
}

// event passes on what an event holds. Those of other types are passed over.
func (s *stream) event(e *event) error {
	switch e.Type {
	case "message_start":
		if e.Message == nil {
			return nil
		}
		s.usage.add(e.Message.Usage)
		for i := range e.Message.Content { // servers that have it whole already
			if err := s.begin(i, &e.Message.Content[i]); err != nil {
				return err
			}
		}
	case "content_block_start":
		if e.Block != nil {
			return s.begin(e.Index.Int(), e.Block)
		}
	case "content_block_delta":
		if e.Delta != nil {
			return s.delta(e.Index.Int(), e.Delta)
		}
	case "content_block_stop":
		if b := s.find(e.Index.Int()); b != nil {
			return s.close(b)
		}
	case "message_delta":
		s.usage.add(e.Usage)
		if e.Delta != nil {
			return s.end(string(e.Delta.StopReason), e.Delta.StopDetails)
		}
	}
	return nil
}

// begin takes the start of a block.
func (s *stream) begin(index int, c *contentBlock) error {
	b := &received{
		index: index, kind: string(c.Type), id: string(c.ID), input: c.Input, signature: string(c.Signature), data: string(c.Data),
	}
	if err := s.add(b); err != nil {
		return err
	}
	switch b.kind {
	case blockText:
		return s.text(b, string(c.Text))
	case blockThinking:
		return s.think(b, string(c.Thinking))
	case blockCall:
		return s.send(model.Delta{Call: &model.CallDelta{
			Index: index, ID: b.id, Name: s.conversation.ToolName(string(c.Name)),
		}})
	}
	return nil
}

// add takes a new block. Before the answer begins, what the provider wants back of
// its thinking is passed on, so that it stands where the thinking stands.
func (s *stream) add(b *received) error {
	if b.kind == blockText || b.kind == blockCall {
		if err := s.remember(); err != nil {
			return err
		}
	}
	s.blocks = append(s.blocks, b)
	return nil
}

// remember passes on what the provider wants back, unless it is what it was.
func (s *stream) remember() error {
	value := s.model.seal(s.blocks)
	if value == s.remembered {
		return nil
	}
	s.remembered = value
	return s.send(model.Delta{ReasoningEncrypted: value})
}

// delta takes a piece of a block.
func (s *stream) delta(index int, d *delta) error {
	kind := map[model.Loose]string{
		"text_delta": blockText, "thinking_delta": blockThinking, "signature_delta": blockThinking, "input_json_delta": blockCall,
	}[d.Type]
	if kind == "" {
		return nil
	}
	b := s.find(index)
	if b == nil || b.kind != kind {
		switch {
		case b != nil && kind == blockCall:
			return nil // the input of a tool that the provider runs itself
		case kind == blockCall:
			return &model.Error{Kind: model.KindProtocol, Message: "a piece of a tool call belongs to no call"}
		}
		b = &received{index: index, kind: kind} // its start was lost
		if err := s.add(b); err != nil {
			return err
		}
	}
	switch d.Type {
	case "text_delta":
		return s.text(b, string(d.Text))
	case "thinking_delta":
		return s.think(b, string(d.Thinking))
	case "signature_delta":
		signature := string(d.Signature)
		if !strings.HasPrefix(signature, b.signature) {
			signature = b.signature + signature
		}
		b.signature = signature
		return nil
	default:
		return s.arguments(b, string(d.PartialJSON))
	}
}

// find returns the block last begun with the number, or last of all without one.
func (s *stream) find(index int) *received {
	for _, b := range slices.Backward(s.blocks) {
		if index == model.NoIndex || b.index == index {
			return b
		}
	}
	return nil
}

// close ends a block. An input that stood at its start counts when nothing
// followed.
func (s *stream) close(b *received) error {
	if b.kind != blockCall || b.fragments || len(b.input) == 0 || b.input[0] == 'n' {
		return nil
	}
	var input model.Loose
	if err := json.Unmarshal(b.input, &input); err != nil || strings.TrimSpace(strings.Trim(string(input), "{}")) == "" {
		return nil // none, which is the assembler's default
	}
	return s.arguments(b, string(input))
}

func (s *stream) text(b *received, text string) error {
	b.length += len(text)
	return s.send(model.Delta{Text: text})
}

func (s *stream) think(b *received, text string) error {
	if text == "" {
		return nil
	}
	shown := text
	if s.showed && b.thinking.Len() == 0 {
		shown = "\n\n" + text // another block
	}
	s.showed = true
	b.thinking.WriteString(text)
	return s.send(model.Delta{Reasoning: shown})
}

func (s *stream) arguments(b *received, text string) error {
	if text == "" {
		return nil
	}
	b.fragments = true
	d := model.CallDelta{Index: b.index, Arguments: text}
	if b.index == model.NoIndex {
		d.ID = b.id
	}
	return s.send(model.Delta{Call: &d})
}

// end takes the stop reason, if there is one.
func (s *stream) end(reason string, details json.RawMessage) error {
	finish, err := s.finishOf(reason, details)
	if err != nil || finish == "" {
		return err
	}
	for _, b := range s.blocks {
		if err := s.close(b); err != nil {
			return err
		}
	}
	if err := s.remember(); err != nil {
		return err
	}
	if err := s.send(model.Delta{Usage: s.usage.report(&s.model.config)}); err != nil {
		return err
	}
	if err := s.send(model.Delta{Finish: finish}); err != nil {
		return err
	}
	s.reason, s.finished = true, true
	return nil
}

// finishOf translates a stop reason; none is "".
func (s *stream) finishOf(reason string, details json.RawMessage) (model.Finish, error) {
	switch strings.ToLower(reason) {
	case "":
		return "", nil
	case "tool_use", "tool_calls":
		return model.FinishToolCalls, nil
	case "max_tokens", "length":
		return model.FinishLength, nil
	case "model_context_window_exceeded":
		if s.said {
			return model.FinishLength, nil
		}
		return "", &model.Error{Kind: model.KindContextTooLong, Message: "the conversation left the model no room for an answer"}
	case "refusal", "content_filter":
		var why struct {
			Explanation model.Loose `json:"explanation"`
		}
		if !s.said && json.Unmarshal(details, &why) == nil && why.Explanation != "" {
			return "", model.Report{Message: string(why.Explanation), Names: []string{"content_filter"}}.Error(nil)
		}
		return model.FinishContentFilter, nil
	case "pause_turn":
		return "", &model.Error{Kind: model.KindBadRequest, Message: "the provider paused to use tools of its own, which is not supported"}
	default:
		// "end_turn", "stop_sequence" and whatever else a model may stop for.
		return model.FinishStop, nil
	}
}

// send yields a delta unless it is empty.
func (s *stream) send(d model.Delta) error {
	if d == (model.Delta{}) {
		return nil
	}
	if d.Text != "" || d.Reasoning != "" || d.Call != nil {
		s.said = s.said || d.Reasoning == ""
		s.finished = false // there was more to come
	}
	if !s.yield(d, nil) {
		return errLeft
	}
	return nil
}

// isError reports whether an error member is one.
func isError(raw json.RawMessage) bool {
	return len(raw) > 0 && raw[0] != 'n' && string(raw) != `""` && string(raw) != "false"
}
