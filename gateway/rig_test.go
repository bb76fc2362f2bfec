package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/protobuf"
	"github.com/holdfast-dev/holdfast/agui/sse"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what is waited for. It is far above what anything takes.
const patience = time.Minute

var quiet = slog.New(slog.DiscardHandler)

// rig is a gateway on a real log, with an engine and a directory that the test controls.
type rig struct {
	t      *testing.T
	nats   *eventbustest.Server
	nc     *nats.Conn
	bus    *eventbus.Bus
	engine *engine
	agents directory
	g      *gateway.Gateway
	http   *httptest.Server
}

func newRig(t *testing.T, options ...func(*gateway.Options)) *rig {
	t.Helper()
	server := eventbustest.New(t)
	r := &rig{t: t, nats: server, engine: newEngine(), agents: directory{
		"clerk": {eventbus.Announcement{Agent: "clerk", Description: "Answers.", TaskQueue: "q"}, true},
		"idle":  {eventbus.Announcement{Agent: "idle"}, false},
	}}
	r.nc, r.bus = openLog(t, server.URL())
	r.g, r.http = r.serve(r.bus, options...)
	return r
}

func openLog(t *testing.T, address string) (*nats.Conn, *eventbus.Bus) {
	t.Helper()
	nc, err := eventbus.Connect(t.Context(), address, "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	bus, err := eventbus.Open(t.Context(), nc, eventbus.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	return nc, bus
}

// serve starts another gateway on the same engine and directory.
func (r *rig) serve(bus *eventbus.Bus, options ...func(*gateway.Options)) (*gateway.Gateway, *httptest.Server) {
	opt := gateway.Options{Logger: quiet, Heartbeat: time.Hour}
	for _, f := range options {
		f(&opt)
	}
	g := gateway.New(bus, r.engine, r.agents, opt)
	s := httptest.NewUnstartedServer(g)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.Start()
	r.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return g, s
}

// beating makes streams send comments, and look after their runs, without delay.
func beating(o *gateway.Options) { o.Heartbeat = 10 * time.Millisecond }

// engine is an engine with one open execution per thread, which runs nothing: the test writes the log.
type engine struct {
	mu      sync.Mutex
	threads map[string]*execution // by tenant and thread
	starts  []string              // of runs that were started
	cancels []string
	asked   int
	clock   int64
	down    bool
	onStart func(tenant string, input *agui.RunAgentInput, digest string)

	// What the engine says of pauses. Without them no thread has one.
	onResume   func(tenant, digest string, input *agui.RunAgentInput, by string) (agui.RunID, error)
	onAnswer   func(tenant, thread string, answer agui.ResumeEntry, by string) (agui.RunID, error)
	onWaiting  func(gateway.WaitingQuery) ([]gateway.WaitingThread, []byte, error)
	onDescribe func(tenant, thread string) gateway.Thread
	onCancel   func(thread string)
	paused     bool // a start is refused
}

type execution struct {
	run, digest string
	start       int64
	open        bool
	waits, told bool
}

var errDown = errors.New("engine is down")

func newEngine() *engine { return &engine{threads: map[string]*execution{}} }

func (e *engine) Start(_ context.Context, tenant, agent, queue, digest string, in *agui.RunAgentInput) (bool, error) {
	e.mu.Lock()
	if e.down {
		e.mu.Unlock()
		return false, errDown
	}
	e.asked++
	if e.paused {
		e.mu.Unlock()
		return false, &gateway.Refusal{Code: gateway.CodeThreadPaused, Message: "the thread waits", Field: "/resume"}
	}
	key := tenant + "\x00" + string(in.ThreadID)
	if x := e.threads[key]; x != nil && (x.open || x.told && x.run == string(in.RunID)) {
		e.mu.Unlock()
		return false, nil
	}
	e.clock++
	e.threads[key] = &execution{run: string(in.RunID), digest: digest, start: e.clock, open: true}
	e.starts = append(e.starts, agent+" on "+queue+": "+string(in.RunID))
	do := e.onStart
	e.mu.Unlock()
	if do != nil {
		do(tenant, in, digest)
	}
	return true, nil
}

func (e *engine) Current(_ context.Context, tenant, thread string) (gateway.Execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return gateway.Execution{}, errDown
	}
	if x := e.threads[tenant+"\x00"+thread]; x != nil {
		return gateway.Execution{Run: x.run, Digest: x.digest, Started: x.start, Open: x.open, Waits: x.waits, Told: x.told}, nil
	}
	return gateway.Execution{}, nil
}

func (e *engine) Cancel(_ context.Context, tenant, thread string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return false, errDown
	}
	x := e.threads[tenant+"\x00"+thread]
	if x == nil || !x.open {
		return false, nil
	}
	e.cancels = append(e.cancels, thread)
	if e.onCancel != nil {
		go e.onCancel(thread)
	}
	return true, nil
}

func (e *engine) Resume(_ context.Context, tenant, digest string, in *agui.RunAgentInput, by string) (agui.RunID, error) {
	do, err := e.onResume, e.Ready(context.Background())
	switch {
	case err != nil:
		return "", err
	case do == nil:
		return "", &gateway.Refusal{Code: gateway.CodeNothingToResume, Message: "the thread waits for no answer", Field: "/resume"}
	}
	return do(tenant, digest, in, by)
}

func (e *engine) Answer(_ context.Context, tenant, thread string, answer agui.ResumeEntry, by string) (agui.RunID, error) {
	if err := e.Ready(context.Background()); err != nil {
		return "", err
	}
	return e.onAnswer(tenant, thread, answer, by)
}

func (e *engine) Describe(_ context.Context, tenant, thread string) (gateway.Thread, error) {
	if err := e.Ready(context.Background()); err != nil || e.onDescribe == nil {
		return gateway.Thread{Status: gateway.StatusNone}, err
	}
	return e.onDescribe(tenant, thread), nil
}

func (e *engine) Waiting(_ context.Context, q gateway.WaitingQuery) ([]gateway.WaitingThread, []byte, error) {
	if err := e.Ready(context.Background()); err != nil {
		return nil, nil, err
	}
	return e.onWaiting(q)
}

func (e *engine) Ready(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return errDown
	}
	return nil
}

// set opens or closes an execution without anything else happening.
func (e *engine) set(tenant, thread string, x execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.threads[tenant+"\x00"+thread] = &x
}

func (e *engine) close(key eventbus.RunKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.threads[key.Tenant+"\x00"+key.Thread]; x != nil && x.run == key.Run {
		x.open = false
	}
}

func (e *engine) fail(down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = down
}

func (e *engine) startedRuns() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.starts)
}

// directory is the agents by name, and whether a worker serves them.
type directory map[string]struct {
	eventbus.Announcement
	served bool
}

func (d directory) Agent(name string) (eventbus.Announcement, bool, bool) {
	a, known := d[name]
	return a.Announcement, a.served, known
}

func (d directory) Agents() []eventbus.Announcement {
	var list []eventbus.Announcement
	for _, a := range d {
		if a.served {
			list = append(list, a.Announcement)
		}
	}
	return list
}

// author writes the log of one run, as its workflow would.
type author struct {
	r    *rig
	key  eventbus.RunKey
	lane *eventbus.Lane
	left bool
}

// write opens the log of a run on thread t1 of the default tenant.
func (r *rig) write(run string) *author {
	return r.writeAs(eventbus.RunKey{Tenant: "default", Thread: "t1", Run: run}, 1, 1)
}

func (r *rig) writeAs(key eventbus.RunKey, number, attempt int64) *author {
	r.t.Helper()
	lane, err := r.bus.OpenLane(r.t.Context(), eventbus.LaneConfig{
		Run: key, Lane: eventbus.MainLane, Execution: "execution", Writer: "turn-" + strconv.FormatInt(number, 10),
		Generation: eventbus.Generation{Start: 1, Number: number, Attempt: attempt},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	closeAtEnd(r.t, lane)
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	if k := key.Tenant + "\x00" + key.Thread; r.engine.threads[k] == nil || r.engine.threads[k].run != key.Run {
		r.engine.threads[k] = &execution{run: key.Run, start: 1, open: true}
	}
	a := &author{r: r, key: key, lane: lane}
	r.t.Cleanup(func() {
		if !a.left {
			_ = lane.Close(context.Background()) // the log may be gone
		}
	})
	return a
}

// says appends events as one entry.
func (a *author) says(events ...agui.Event) {
	a.r.t.Helper()
	if err := errors.Join(a.lane.Append(a.r.t.Context(), events...), a.lane.Flush(a.r.t.Context())); err != nil {
		a.r.t.Fatal(err)
	}
}

// begins appends RUN_STARTED for an input.
func (a *author) begins(digest string) {
	a.r.t.Helper()
	a.says(a.started(digest))
}

func (a *author) started(digest string) agui.Event {
	metadata, err := json.Marshal(map[string]string{"inputDigest": digest})
	if err != nil {
		a.r.t.Fatal(err)
	}
	return &agui.RunStarted{
		BaseEvent: agui.Base{Metadata: agui.Metadata{"holdfast": metadata}}, ThreadID: agui.ThreadID(a.key.Thread), RunID: agui.RunID(a.key.Run),
	}
}

// leaves ends the writer, and with it nothing of the run.
func (a *author) leaves() {
	a.r.t.Helper()
	a.left = true
	if err := a.lane.Close(a.r.t.Context()); err != nil {
		a.r.t.Fatal(err)
	}
}

// ends appends RUN_FINISHED and closes the execution.
func (a *author) ends() {
	a.r.t.Helper()
	a.says(&agui.RunFinished{ThreadID: agui.ThreadID(a.key.Thread), RunID: agui.RunID(a.key.Run), Outcome: agui.Success()})
	a.leaves()
	a.r.engine.close(a.key)
}

// counts is the run of ten digits, each event an entry of its own.
func (a *author) counts() {
	a.r.t.Helper()
	a.begins("d")
	a.says(&agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)})
	for i := range 10 {
		a.digit(i)
	}
	a.says(&agui.TextMessageEnd{MessageID: "m"})
	a.ends()
}

func (a *author) digit(i int) {
	a.r.t.Helper()
	a.says(&agui.TextMessageContent{MessageID: "m", Delta: strconv.Itoa(i)})
}

// input is a body for a run of thread t1.
func input(run, text string) string {
	return fmt.Sprintf(`{"threadId":"t1","runId":%q,"messages":[{"id":"u1","role":"user","content":%q}]}`, run, text)
}

// stream is an answer under way.
type stream struct {
	*http.Response
	t      *testing.T
	frames *sse.Reader
	binary *protobuf.Reader // nil until it is read in that form
	cancel context.CancelFunc
}

// ask makes a request; header is name, value, name, value, ….
func (r *rig) ask(method, path, body string, header ...string) *stream {
	r.t.Helper()
	return r.askOf(r.http, method, path, body, header...)
}

func (r *rig) askOf(s *httptest.Server, method, path, body string, header ...string) *stream {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, content)
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	out := &stream{Response: resp, t: r.t, frames: sse.NewReader(resp.Body, 16<<20), cancel: cancel}
	r.t.Cleanup(out.leave)
	return out
}

func (r *rig) post(body string, header ...string) *stream {
	r.t.Helper()
	return r.ask(http.MethodPost, "/agents/clerk", body, header...)
}

// events is the path of a run's events.
func events(thread, run string) string {
	return "/threads/" + url.PathEscape(thread) + "/runs/" + url.PathEscape(run) + "/events"
}

// leave drops the connection.
func (s *stream) leave() {
	s.cancel()
	_ = s.Body.Close()
}

// next is the next frame.
func (s *stream) next() sse.Event {
	s.t.Helper()
	e, err := s.frames.Next()
	if err != nil {
		s.t.Fatalf("next frame: %v", err)
	}
	e.Data = bytes.Clone(e.Data)
	return e
}

// take is the next n frames.
func (s *stream) take(n int) []sse.Event {
	s.t.Helper()
	var list []sse.Event
	for range n {
		list = append(list, s.next())
	}
	return list
}

// rest is all frames to the end, and how it ended.
func (s *stream) rest() (list []sse.Event, err error) {
	for {
		e, err := s.frames.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		e.Data = bytes.Clone(e.Data)
		list = append(list, e)
	}
}

// whole is all frames of a stream that must end in order.
func (s *stream) whole() []sse.Event {
	s.t.Helper()
	if s.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(s.Body)
		s.t.Fatalf("status %s: %s", s.Status, body)
	}
	list, err := s.rest()
	if err != nil {
		s.t.Fatalf("the stream ended with %v", err)
	}
	return list
}

// refused fails the test unless the answer is an HTTP error with this status, code and field. It returns the error's body.
func (s *stream) refused(status int, code, field string) (body struct {
	Error struct {
		Code, Message, Field string
		Limit                int
	}
},
) {
	s.t.Helper()
	data, err := io.ReadAll(s.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		s.t.Fatalf("%s: %v in %s", s.Status, err, data)
	}
	if s.StatusCode != status || body.Error.Code != code || body.Error.Field != field || body.Error.Message == "" {
		s.t.Errorf("got %d %+v, want %d %s %s", s.StatusCode, body.Error, status, code, field)
	}
	if got := s.Header.Get("Content-Type"); got != "application/json" {
		s.t.Errorf("content type %q", got)
	}
	return body
}

// brief is frames, an event a word.
func brief(frames []sse.Event) []string {
	var list []string
	for _, f := range frames {
		e, err := agui.Decode(f.Data)
		switch e := e.(type) {
		case nil:
			list = append(list, err.Error())
		case *agui.TextMessageContent:
			list = append(list, e.Delta)
		case *agui.RunError:
			list = append(list, "RUN_ERROR "+*e.Code)
		default:
			list = append(list, string(e.Type()))
		}
	}
	return list
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

var ten = []string{"RUN_STARTED", "TEXT_MESSAGE_START", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "TEXT_MESSAGE_END", "RUN_FINISHED"}

// text is the whole body.
func (s *stream) text() string {
	s.t.Helper()
	data, err := io.ReadAll(s.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// closeAtEnd closes a lane that a test may leave open, as a writer that dies does.
func closeAtEnd(t testing.TB, lane *eventbus.Lane) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	t.Cleanup(func() { _ = lane.Close(ctx) })
}
