package anthropic

import (
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
	"strconv"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// DefaultBaseURL is Anthropic's own.
const DefaultBaseURL = "https://api.anthropic.com"

// Adaptive leaves it to the model how much it thinks. Models before Claude 4.6 do
// not take it.
const Adaptive = -1

const (
	// defaultMaxTokens is what all models since Claude 4 can give. The API demands
	// a limit; a lower one would cut long answers.
	defaultMaxTokens = 32_000
	// minThinking is the smallest budget that the API takes.
	minThinking = 1024

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
	// BaseURL is the address below which v1/messages is, [DefaultBaseURL] when
	// empty; a v1 at its end is understood. A query in it is sent with each
	// request.
	BaseURL string
	// APIKey is sent as x-api-key. A gateway that wants a bearer token gets it in
	// Header.
	APIKey string
	// Model is the provider's name for the model.
	Model string
	// Provider names the provider in the usage report. It is "anthropic" by itself
	// when BaseURL is Anthropic's.
	Provider string
	// Header is sent with each request; "anthropic-beta" goes here.
	Header http.Header
	// HTTPClient, when set, carries the requests. It must not have a timeout:
	// that would cut long answers.
	HTTPClient *http.Client
	// Extra holds further members of the request, such as "temperature" or
	// "metadata". They replace what the package would send.
	Extra map[string]any
	// MaxOutputTokens limits answers whose request has no limit of its own, with
	// the thinking in front of them; zero means 32,000, which models before
	// Claude 4 do not give.
	MaxOutputTokens int
	// Thinking is how many tokens the model may spend on thinking, at least 1024,
	// or [Adaptive]. Zero asks for none. It never takes more than half of what
	// the answer may have.
	Thinking int
	// ThinkingDisplay is "summarized" to see the thinking of models that otherwise
	// think unseen, "omitted" to save its time; empty leaves it to the model.
	ThinkingDisplay string
	// Effort is how thorough the model should be, "low" to "max"; empty leaves it
	// to the model.
	Effort string
	// NoCache keeps the request from marking places for the provider's cache.
	NoCache bool
	// LongCache keeps what is cached for an hour instead of five minutes. It costs
	// more to write; conversations with people are often slower than five minutes.
	LongCache bool
	// Media is what the model can be shown beside text; nil means images and
	// documents.
	Media []agui.PartType
	// Logger is told, at debug level, of tool results that a history has too many
	// and of turns that go on without thinking; nil means [slog.Default].
	Logger *slog.Logger

	// FirstByteTimeout bounds the wait for the first byte of the answer; zero
	// means 5 minutes.
	FirstByteTimeout time.Duration
	// IdleTimeout bounds the silence between two pieces of it; zero means 2
	// minutes. Pings are a sign of life.
	IdleTimeout time.Duration
	// TotalTimeout bounds the whole answer; zero means 30 minutes.
	TotalTimeout time.Duration
}

// New returns a model. It checks the configuration and contacts nobody.
func New(c Config) (model.Model, error) {
	if c.Model == "" {
		return nil, errors.New("configure an Anthropic model: the model's name is missing")
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
	if c.Thinking != Adaptive && c.Thinking != 0 && c.Thinking < minThinking {
		return nil, fmt.Errorf("configure model %q: a budget of %d tokens for thinking is below the least, %d", c.Model, c.Thinking, minThinking)
	}
	if _, err := json.Marshal(c.Extra); err != nil {
		return nil, fmt.Errorf("configure model %q: extra members: %w", c.Model, err)
	}
	if c.Provider == "" && base.Hostname() == "api.anthropic.com" {
		c.Provider = "anthropic"
	}
	if c.MaxOutputTokens <= 0 {
		c.MaxOutputTokens = defaultMaxTokens
	}
	if c.Media == nil {
		c.Media = []agui.PartType{agui.PartImage, agui.PartDocument}
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
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/v1")
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
	return &messages{
		config: c,
		host:   base.Hostname(),
		// Not sdk.NewClient: that reads keys and addresses from the environment.
		client: sdk.Client{Options: options},
	}, nil
}

// messages is a model behind the Messages API.
type messages struct {
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
func (m *messages) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
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
		err = m.client.Post(w.Context(), "v1/messages", body, nil, option.WithResponseInto(&res))
		if res != nil && res.Body != nil {
			defer res.Body.Close()
		}
		switch {
		case res != nil && res.StatusCode >= http.StatusBadRequest:
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

// refusal is the error of an answer whose status is one.
func (m *messages) refusal(res *http.Response) *model.Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what could be read has to do
	r := model.ParseReport(body)
	r.Status = res.StatusCode
	return m.failed(res, r)
}

// failed makes an error of what a provider said.
func (m *messages) failed(res *http.Response, r model.Report) *model.Error {
	if reason := http.StatusText(r.Status); r.Message == "" && reason != "" {
		r.Message = "the provider answered: " + strconv.Itoa(r.Status) + " " + reason
	}
	return r.Error(res.Header, m.config.APIKey)
}
