package gateway

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

// Limits bound what a client may send. They are checked before anything starts.
type Limits struct {
	Body     int // bytes of a request body
	ID       int // bytes of a thread, run, message or call id; 2,000 at most
	Messages int // messages of an input
	Tools    int // tools that a client offers
	Context  int // context items
	Resume   int // resume entries

	// Requests is how many requests a second a principal may make, and Burst how many of them at once; by default as many as
	// in two seconds. Without Authenticate all clients are one principal. Zero Requests: as many as it likes.
	Requests float64
	Burst    int
	// Streams is how many requests of a tenant may be answered with streams at the same time. Zero: any number.
	Streams int
}

// DefaultLimits have these reasons: Temporal takes 2 MiB per payload, and the conversation travels in one beside the
// agent's definition; ids travel percent-encoded in the headers of every entry; model providers take 128 tools.
var DefaultLimits = Limits{Body: 1 << 20, ID: 512, Messages: 4000, Tools: 128, Context: 256, Resume: 256}

// maxID keeps the ids of an entry, percent-encoded in its headers, well below what NATS takes as headers.
const maxID = 2000

// bodyTimeout bounds the reading of a request body.
const bodyTimeout = 30 * time.Second

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&l.Body, DefaultLimits.Body)
	def(&l.ID, DefaultLimits.ID)
	def(&l.Messages, DefaultLimits.Messages)
	def(&l.Tools, DefaultLimits.Tools)
	def(&l.Context, DefaultLimits.Context)
	def(&l.Resume, DefaultLimits.Resume)
	l.ID = min(l.ID, maxID)
	if l.Burst == 0 {
		l.Burst = max(1, int(2*l.Requests))
	}
	return l
}

// readInput reads and checks a body that is a RunAgentInput.
func (g *Gateway) readInput(w http.ResponseWriter, r *http.Request) (*agui.RunAgentInput, error) {
	body, err := g.readBody(w, r)
	if err != nil {
		return nil, err
	}
	input, err := agui.DecodeInput(body)
	if err != nil {
		return nil, inputError(err)
	}
	if err := g.checkInput(input); err != nil {
		return nil, err
	}
	g.warnUnknown(input)
	return input, nil
}

// readBody reads the body of a POST, which is JSON.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, &apiError{status: http.StatusUnsupportedMediaType, Code: CodeMediaType, Message: "the body must be sent as application/json", Field: "Content-Type"}
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // not every server can; then its own time-outs hold
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(g.opt.Limits.Body)))
	_ = rc.SetReadDeadline(time.Time{})
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &apiError{
			status: http.StatusRequestEntityTooLarge, Code: CodeBodyTooLarge,
			Message: fmt.Sprintf("the body is larger than %d bytes", g.opt.Limits.Body), Field: "body", Limit: g.opt.Limits.Body,
		}
	}
	if err != nil {
		return nil, &apiError{status: http.StatusBadRequest, Code: CodeInvalidInput, Message: "the body ended early", Field: "body", cause: err}
	}
	return body, nil
}

// warnUnknown notes what a later version of the protocol may have sent: nothing of it is an error, and nothing is done with
// it.
func (g *Gateway) warnUnknown(in *agui.RunAgentInput) {
	messages := 0
	for _, m := range in.Messages {
		if !m.Role.Known() {
			messages++
		}
	}
	if messages > 0 || len(in.Extra) > 0 {
		g.log.Warn("input has parts that this version does not know, and does not use", "thread_id", in.ThreadID, "run_id", in.RunID, "messages", messages, "members", len(in.Extra))
	}
}

func (g *Gateway) checkInput(in *agui.RunAgentInput) error {
	l := g.opt.Limits
	c := limitCheck{}
	c.given("/threadId", string(in.ThreadID))
	c.given("/runId", string(in.RunID))
	c.id("/threadId", string(in.ThreadID), l.ID)
	c.id("/runId", string(in.RunID), l.ID)
	c.count("/messages", len(in.Messages), l.Messages)
	c.count("/tools", len(in.Tools), l.Tools)
	c.count("/context", len(in.Context), l.Context)
	c.count("/resume", len(in.Resume), l.Resume)
	for i, m := range in.Messages {
		at := "/messages/" + strconv.Itoa(i) + "/"
		c.id(at+"id", string(m.ID), l.ID)
		c.id(at+"toolCallId", string(m.ToolCallID), l.ID)
		for j, call := range m.ToolCalls {
			c.id(at+"toolCalls/"+strconv.Itoa(j)+"/id", string(call.ID), l.ID)
		}
	}
	for i, e := range in.Resume {
		c.id("/resume/"+strconv.Itoa(i)+"/interruptId", string(e.InterruptID), l.ID)
	}
	if c.err != nil {
		return c.err
	}
	if v := in.ProtocolVersion; v != nil {
		major, _, _ := strings.Cut(*v, ".")
		if n, err := strconv.Atoi(major); err == nil && n > 1 {
			return &apiError{status: http.StatusBadRequest, Code: CodeProtocolVersion, Message: "this server speaks AG-UI " + agui.ProtocolVersion, Field: "/protocolVersion"}
		}
	}
	return nil
}

// checkPath bounds the ids in the path of a request.
func (g *Gateway) checkPath(r *http.Request) error {
	c := limitCheck{}
	for _, name := range []string{"agent", "thread", "run", "interrupt"} {
		c.id(name, r.PathValue(name), g.opt.Limits.ID)
	}
	return c.err
}

// limitCheck keeps the first limit that is exceeded.
type limitCheck struct{ err error }

// given refuses an empty id. The protocol has nothing against those; here it would name a thread that nobody can read or
// cancel by its path, and that all clients share that forgot to make one up.
func (c *limitCheck) given(field, id string) {
	if id == "" && c.err == nil {
		c.err = &apiError{status: http.StatusBadRequest, Code: CodeInvalidInput, Message: field + " is empty", Field: field}
	}
}

func (c *limitCheck) id(field, id string, limit int) {
	if len(id) > limit && c.err == nil {
		c.exceeded(field, fmt.Sprintf("%s has %d bytes, at most %d are accepted", field, len(id), limit), limit)
	}
}

func (c *limitCheck) count(field string, n, limit int) {
	if n > limit && c.err == nil {
		c.exceeded(field, fmt.Sprintf("%s has %d elements, at most %d are accepted", field, n, limit), limit)
	}
}

func (c *limitCheck) exceeded(field, message string, limit int) {
	c.err = &apiError{status: http.StatusBadRequest, Code: CodeLimitExceeded, Message: message, Field: field, Limit: limit}
}
