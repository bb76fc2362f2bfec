package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/sse"
)

// DefaultBaseURL is OpenAI's own.
const DefaultBaseURL = "https://api.openai.com/v1"

const (
	// maxLine bounds a line of the stream; 2 MiB have been seen.
	maxLine = 16 << 20
	// maxErrorBody bounds what is read of an error's body.
	maxErrorBody = 1 << 20
	// idleConnections is for many runs against one server at once. The standard
	// library keeps two, so that all others would connect anew for each turn.
	idleConnections = 128
)

// Config says where a model is and how to talk to it. Model is required.
type Config struct {
	// BaseURL is the address below which chat/completions is, [DefaultBaseURL]
	// when empty. A query in it is sent with each request.
	BaseURL string
	// APIKey may be empty: local servers need none.
	APIKey string
	// Model is the provider's name for the model.
	Model string
	// Provider names the provider in the usage report. It is "openai" by itself
	// when BaseURL is OpenAI's.
	Provider string
	// Header is sent with each request.
	Header http.Header
	// HTTPClient, when set, carries the requests. It must not have a timeout:
	// that would cut long answers.
	HTTPClient *http.Client
	// Extra holds further members of the request, such as "temperature" or
	// "reasoning_effort". They replace what the package would send.
	Extra map[string]any
	// OmitUsage keeps the request from asking for usage, which a few servers
	// refuse.
	OmitUsage bool
	// Media is what the model can be shown beside text, in messages and results;
	// nil means images. OpenAI takes documents (PDF) and, of some models, audio.
	// Documents that are text are sent as text to every model.
	Media []agui.PartType
	// ReturnReasoning sends the reasoning of a turn back while the turn's calls
	// are answered, in the member it came in. DeepSeek, Kimi and others demand it
	// of their thinking models; the rest ignore or refuse it.
	ReturnReasoning bool
	// KeepThinkTags takes <think> at the start of an answer for a part of it.
	// Otherwise what it encloses is reasoning.
	KeepThinkTags bool
	// Logger is told, at debug level, of tool results that a history has too
	// many; nil means [slog.Default].
	Logger *slog.Logger

	// FirstByteTimeout bounds the wait for the first byte of the answer; zero
	// means 5 minutes.
	FirstByteTimeout time.Duration
	// IdleTimeout bounds the silence between two pieces of it; zero means 2
	// minutes. Keep-alive comments are a sign of life.
	IdleTimeout time.Duration
	// TotalTimeout bounds the whole answer; zero means 30 minutes.
	TotalTimeout time.Duration
}

// New returns a model. It checks the configuration and contacts nobody.
func New(c Config) (model.Model, error) {
	if c.Model == "" {
		return nil, errors.New("configure a chat completions model: the model's name is missing")
	}
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("configure model %q: base URL: %w", c.Model, err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("configure model %q: base URL %q is not an http or https address", c.Model, base.Redacted())
	}
	if _, err := json.Marshal(c.Extra); err != nil {
		return nil, fmt.Errorf("configure model %q: extra members: %w", c.Model, err)
	}
	if c.Provider == "" && base.Hostname() == "api.openai.com" {
		c.Provider = "openai"
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.HTTPClient == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = idleConnections
		transport.MaxIdleConns = 2 * idleConnections
		c.HTTPClient = &http.Client{Transport: transport}
	}
	if c.Media == nil {
		c.Media = []agui.PartType{agui.PartImage}
	}

	options := []option.RequestOption{
		option.WithMaxRetries(0),
		option.WithHTTPClient(c.HTTPClient),
		option.WithHeader("Accept", "text/event-stream"),
		option.WithMiddleware(boundErrors),
	}
	for name, values := range base.Query() {
		for _, v := range values {
			options = append(options, option.WithQueryAdd(name, v))
		}
	}
	base.RawQuery, base.Fragment = "", ""
	options = append(options, option.WithBaseURL(base.String()))
	if c.APIKey != "" {
		options = append(options, option.WithAPIKey(c.APIKey))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		options = append(options, option.WithHeaderDel(name))
		for _, v := range c.Header[name] {
			options = append(options, option.WithHeaderAdd(name, v))
		}
	}
	return &completions{
		config: c,
		host:   base.Hostname(),
		// Not sdk.NewClient: that reads keys and addresses from the environment.
		client: sdk.Client{Options: options},
	}, nil
}

// completions is a model behind a chat completions endpoint.
type completions struct {
	config Config
	host   string
	client sdk.Client
}

// boundErrors keeps the SDK from reading an error's body without limit.
func boundErrors(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(r)
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxErrorBody), res.Body}
	}
	return res, err
}

// Stream implements [model.Model].
func (m *completions) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		conversation := model.Prepare(req, validID)
		body, err := m.encode(req, conversation)
		if err != nil {
			yield(model.Delta{}, &model.Error{Kind: model.KindBadRequest, Message: "the request cannot be encoded", Err: err})
			return
		}
		w := model.Patience{FirstByte: m.config.FirstByteTimeout, Idle: m.config.IdleTimeout, Total: m.config.TotalTimeout}.Watch(ctx)
		defer w.Close()

		var res *http.Response
		err = m.client.Post(w.Context(), "chat/completions", body, nil, option.WithResponseInto(&res))
		if res != nil && res.Body != nil {
			defer res.Body.Close()
		}
		switch {
		case res != nil && res.StatusCode >= http.StatusBadRequest:
			// Not the SDK's error: it loses the status when the body is not JSON.
			yield(model.Delta{}, m.refusal(res))
			return
		case err != nil:
			yield(model.Delta{}, w.Failure(err))
			return
		}
		w.Answer(res.Body)
		s := &stream{model: m, conversation: conversation, response: res, yield: yield}
		if mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); mediaType == "application/json" {
			err = s.document(w)
		} else {
			err = s.events(w)
		}
		if err == nil || errors.Is(err, errLeft) {
			return
		}
		if e, ok := errors.AsType[*model.Error](err); ok {
			yield(model.Delta{}, e)
			return
		}
		yield(model.Delta{}, w.Failure(err))
	}
}

const tooLong = "the provider sent a longer piece than is accepted (16 MiB)"

// errLeft says that whoever reads the deltas has left the loop.
var errLeft = errors.New("the reader has left")

// stream is one answer on its way.
type stream struct {
	model        *completions
	conversation *model.Conversation
	response     *http.Response
	yield        func(model.Delta, error) bool
	// reason says that a finish reason has come, finished that nothing of the
	// answer has come since. Some servers send a reason with every piece: it is
	// worth something at a marked end, and nothing where a stream just stops.
	reason, finished bool
	// thoughts is what of the reasoning the provider wants back, remembered the
	// form in which that was passed on; thought says that more has come since.
	thoughts   sealed
	thought    bool
	remembered string
	tags       thinkTags
}

// events reads an event stream to its end.
func (s *stream) events(w *model.Watch) error {
	// The standard drops an event that no empty line ends. Servers forget that
	// line at the end; a cut event is not valid JSON and caught by that.
	reader := sse.NewReader(io.MultiReader(w, strings.NewReader("\n\n")), maxLine)
	for {
		event, err := reader.Next()
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
		data := bytes.TrimSpace(event.Data)
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			if !s.reason {
				return &model.Error{Kind: model.KindProtocol, Message: s.unfinished()}
			}
			w.Drain()
			return nil
		}
		if event.Name == "error" && !bytes.HasPrefix(data, []byte("{")) {
			return s.model.failed(s.response, model.Report{Message: string(data)})
		}
		if !bytes.HasPrefix(data, []byte("{")) {
			continue // somebody's keep-alive
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return &model.Error{Kind: model.KindProtocol, Message: "the provider sent a damaged piece of its answer", Err: err}
		}
		if err := s.chunk(&c, event.Name == "error", data); err != nil {
			return err
		}
		if s.finished {
			w.Finished()
		}
	}
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
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return &model.Error{Kind: model.KindProtocol, Message: "the provider's answer is damaged", Err: err}
	}
	if err := s.chunk(&c, false, data); err != nil {
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
