package eventbus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options configure the log. The zero value is what production uses with one NATS server.
type Options struct {
	// Stream is the name of the JetStream stream. Default "HOLDFAST". Subjects, live subjects and buckets derive from
	// it, so that several logs fit into one NATS account.
	Stream string

	// Replicas is how many servers hold the log. Default 1; 3 for a cluster. It is used when the stream is made; an
	// existing stream keeps what it has, and is refused if that is less.
	Replicas int

	// MaxAge is how long entries are kept; zero keeps them for ever. It must exceed the longest run including its
	// pauses, because nothing may be deleted from a run that is open. Used when the stream is made.
	MaxAge time.Duration

	// Logger gets what the log repairs by itself. Default slog.Default().
	Logger *slog.Logger

	// Cipher encrypts what entries say, and decrypts it. Nil encrypts nothing, and can't read what is encrypted. What is not is
	// read as it is.
	Cipher Cipher

	// Meter is told what the log does. Nil tells nobody.
	Meter Meter

	checkEvery    time.Duration // for tests, default checkEvery
	announceTTL   time.Duration // for tests, default announceTTL
	announceEvery time.Duration // for tests, default announceEvery
}

const (
	defaultStream = "HOLDFAST"

	// requestTimeout bounds one request to JetStream. A publish or read that takes longer is asked about again; it is
	// well above a leader election (2 to 4 s are rare) divided by the tries, and short enough to notice a lost ack.
	requestTimeout = 3 * time.Second

	// retryFirst and retryMost bound the pause between tries while NATS is away.
	retryFirst = 10 * time.Millisecond
	retryMost  = time.Second

	// minEntry is the smallest payload limit, in bytes, that leaves room for events beside the headers of an entry.
	minEntry = 32 << 10
)

// Bus is the event log of all runs in one JetStream stream. It is safe for concurrent use.
type Bus struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	opt      Options
	log      *slog.Logger
	prefix   string // of subjects, "holdfast.log."
	live     string // of republished subjects, "holdfast.live."
	large    string // name of the object bucket
	maxEntry int    // bytes of one entry, headers included

	epoch atomic.Pointer[string]
	alone sync.Once // for a warning
	link  atomic.Pointer[link]

	mu        sync.Mutex
	objects   jetstream.ObjectStore
	followers map[string]*follower
	watches   []context.CancelFunc
	closed    bool

	stop context.CancelFunc
	done sync.WaitGroup

	loseLive func() bool // set by tests: drop this live entry
	loseAck  func() bool // set by tests: this ack never comes
}

// Open connects the log on nc, which stays the caller's and must outlive the Bus; it creates the stream when it is
// missing, and refuses an existing one whose settings would break a guarantee. It blocks until JetStream has answered
// or ctx is done. Close ends what Open started.
//
// The connection should reconnect for ever (nats.MaxReconnects(-1)); see Connect.
func Open(ctx context.Context, nc *nats.Conn, opt Options) (*Bus, error) {
	if opt.Stream == "" {
		opt.Stream = defaultStream
	}
	if opt.Replicas == 0 {
		opt.Replicas = 1
	}
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	if opt.Meter == nil {
		opt.Meter = nobody{}
	}
	opt.checkEvery = cmp.Or(opt.checkEvery, checkEvery)
	opt.announceTTL = cmp.Or(opt.announceTTL, announceTTL)
	opt.announceEvery = cmp.Or(opt.announceEvery, announceEvery)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	prefix := "holdfast."
	if opt.Stream != defaultStream {
		prefix += opt.Stream + "."
	}
	run, stop := context.WithCancel(context.Background())
	b := &Bus{
		nc: nc, js: js, opt: opt, log: opt.Logger,
		prefix: prefix + "log.", live: prefix + "live.", large: opt.Stream + "_LARGE",
		followers: map[string]*follower{}, stop: stop,
	}
	if err := b.ensure(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("open event log: %w", err)
	}
	// The server tells its limit when it connects, which ensure has waited for.
	b.maxEntry = min(int(nc.MaxPayload()), 1<<20)
	if b.maxEntry < minEntry {
		stop()
		return nil, fmt.Errorf("open event log: the NATS server's max_payload is %d bytes, at least %d are needed", nc.MaxPayload(), minEntry)
	}
	if err := b.readable(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("open event log: %w", err)
	}
	b.relink()
	connected := nc.StatusChanged(nats.CONNECTED)
	b.done.Go(func() {
		defer nc.RemoveStatusListener(connected)
		b.watchConnection(run, connected)
	})
	return b, nil
}

// Connect dials NATS the way the log needs it: it tries until the server is up or ctx is done, reconnects for ever, and
// keeps nothing in memory for later while it is disconnected, since the log itself decides what to send again. Further
// options come last and win.
func Connect(ctx context.Context, url, name string, log *slog.Logger, opts ...nats.Option) (*nats.Conn, error) {
	all := append([]nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost, reconnecting", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("NATS reconnected", "server", nc.ConnectedUrlRedacted()) }),
		// A follower that could not keep up finds out by itself and looks into the log.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Debug("NATS", "error", err) }),
	}, opts...)
	pause := retryFirst
	for {
		nc, err := nats.Connect(url, all...)
		if err == nil {
			return nc, nil
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || !dialing(err) {
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
		if pause == retryMost {
			log.Warn("waiting for NATS", "error", err)
		}
		if wait(ctx, &pause) != nil {
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
	}
}

// dialing tells a server that is not there yet from a URL or an option that is wrong. Errors of parsing and of files look
// like net.Error, too.
func dialing(err error) bool {
	if _, wrong := errors.AsType[*net.AddrError](err); wrong {
		return false
	}
	_, network := errors.AsType[*net.OpError](err)
	return network || errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF)
}

// Close ends all readers and waits for the Bus's goroutines. It does not close the connection.
func (b *Bus) Close() {
	b.mu.Lock()
	b.closed = true
	for _, f := range b.followers {
		f.cancel()
	}
	for _, cancel := range b.watches {
		cancel()
	}
	b.mu.Unlock()
	b.stop()
	b.done.Wait()
}

// Ready reports whether the log answers now: nil, or an error that wraps ErrUnavailable.
func (b *Bus) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := b.refreshEpoch(ctx); err != nil {
		return unavailable("event log", err)
	}
	return nil
}

func (b *Bus) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        b.opt.Stream,
		Description: "Holdfast event log: AG-UI events of all runs",
		Subjects:    []string{b.prefix + ">"},
		Storage:     jetstream.FileStorage,
		Replicas:    b.opt.Replicas,
		MaxAge:      b.opt.MaxAge,
		AllowDirect: true,
		RePublish:   &jetstream.RePublish{Source: b.prefix + ">", Destination: b.live + ">"},
		// The fence stands on expected sequences; nothing of an open run may vanish behind it.
		Retention: jetstream.LimitsPolicy,
	}
}

// ensure makes the stream and the bucket, or checks the stream that is there.
func (b *Bus) ensure(ctx context.Context) error {
	return retry(ctx, func(ctx context.Context) error {
		ctx, cancel := b.request(ctx)
		defer cancel()
		s, err := b.js.Stream(ctx, b.opt.Stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			s, err = b.js.CreateStream(ctx, b.streamConfig())
			if err == nil {
				b.log.Info("event log created", "stream", b.opt.Stream, "replicas", b.opt.Replicas)
			}
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				return unavailable("stream "+b.opt.Stream, err) // another process made it, with settings of its own: look again
			}
		}
		if errors.Is(err, jetstream.ErrInvalidStreamName) {
			return permanent{fmt.Errorf("stream %q: %w", b.opt.Stream, err)}
		}
		if err != nil {
			if _, ok := errors.AsType[*jetstream.APIError](err); ok && !transient(err) {
				return permanent{fmt.Errorf("stream %s: %w", b.opt.Stream, err)}
			}
			return unavailable("stream "+b.opt.Stream, err)
		}
		info := s.CachedInfo()
		if err := b.check(info.Config); err != nil {
			return permanent{err}
		}
		if info.Cluster != nil && info.Cluster.Name != "" && info.Config.Replicas == 1 {
			b.alone.Do(func() {
				b.log.Warn("the event log is on one server of a cluster, and away when that is: give it three replicas", "stream", b.opt.Stream)
			})
		}
		b.setEpoch(info.Created)
		return nil
	})
}

// check refuses settings that would break a guarantee in silence.
func (b *Bus) check(c jetstream.StreamConfig) error {
	bad := func(field, is, want string) error {
		return fmt.Errorf("stream %s has %s %s, the event log needs %s: change the stream, or set another stream name", c.Name, field, is, want)
	}
	switch {
	case !c.AllowDirect:
		return bad("allow_direct", "false", "true")
	case !slices.Contains(c.Subjects, b.prefix+">"):
		return bad("subjects", fmt.Sprint(c.Subjects), b.prefix+">")
	case c.NoAck:
		return bad("no_ack", "true", "false")
	case c.RePublish == nil || c.RePublish.Destination != b.live+">" || c.RePublish.HeadersOnly:
		return bad("republish", fmt.Sprintf("%+v", c.RePublish), b.live+">")
	case c.MaxMsgsPerSubject > 0:
		return bad("max_msgs_per_subject", strconv.FormatInt(c.MaxMsgsPerSubject, 10), "no such limit (it deletes entries of open runs)")
	case (c.MaxMsgs > 0 || c.MaxBytes > 0) && c.Discard == jetstream.DiscardOld:
		return bad("discard", "old with a limit on messages or bytes", "discard new (old deletes entries of open runs)")
	case c.Storage != jetstream.FileStorage:
		return bad("storage", c.Storage.String(), "file (what is acknowledged has to survive its server)")
	case c.PersistMode == jetstream.AsyncPersistMode:
		return bad("persist_mode", "async", "the default (what is acknowledged has to be written)")
	case c.Replicas < b.opt.Replicas:
		return bad("replicas", strconv.Itoa(c.Replicas), strconv.Itoa(b.opt.Replicas)+" (as asked for; `nats stream edit "+c.Name+" --replicas "+strconv.Itoa(b.opt.Replicas)+"`)")
	case c.Retention != jetstream.LimitsPolicy:
		return bad("retention", c.Retention.String(), "limits")
	}
	return nil
}

// transient tells answers of JetStream that pass (no leader yet, insufficient resources while servers come up) from
// those that another try won't change.
func transient(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return !ok || api.Code == 503 || api.Code == 408
}

func (b *Bus) setEpoch(created time.Time) string {
	epoch := strconv.FormatInt(created.UnixNano(), 36)
	old := b.epoch.Swap(&epoch)
	if old != nil && *old != epoch {
		b.log.Warn("event log was made anew, earlier event ids are void", "stream", b.opt.Stream)
		b.ring()
	}
	return epoch
}

// ring sends every follower to the log.
func (b *Bus) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.followers {
		f.ring()
	}
}

// Epoch names the creation of the stream as last seen. Event ids of another epoch are void.
func (b *Bus) Epoch() string { return *b.epoch.Load() }

func (b *Bus) refreshEpoch(ctx context.Context) (string, error) {
	rctx, cancel := b.request(ctx)
	defer cancel()
	s, err := b.js.Stream(rctx, b.opt.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := b.ensure(ctx); err != nil {
			return "", err
		}
		return b.Epoch(), nil
	}
	if err != nil {
		return "", err
	}
	return b.setEpoch(s.CachedInfo().Created), nil
}

// watchConnection sends every follower back to the log after a reconnect: live entries may have been missed, and the
// stream may be another one. That is also looked for from time to time, because nobody tells when a stream is deleted.
func (b *Bus) watchConnection(ctx context.Context, connected <-chan nats.Status) {
	check := time.NewTicker(b.opt.checkEvery)
	defer check.Stop()
	for {
		reconnected := false
		select {
		case <-ctx.Done():
			return
		case <-check.C:
		case <-connected:
			reconnected = true
			b.relink()
		}
		rctx, cancel := context.WithTimeout(ctx, time.Minute)
		err := retry(rctx, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			_, err := b.refreshEpoch(ctx)
			return err
		})
		cancel()
		if err != nil && ctx.Err() == nil {
			b.log.Warn("event log does not answer", "error", err)
		}
		if reconnected {
			b.ring()
		}
	}
}

// link is one life of the connection. The answer to a request doesn't outlive it: who waits had better ask again than
// wait for his time to run out.
type link struct {
	over context.Context
	end  context.CancelFunc
}

func (b *Bus) relink() {
	over, end := context.WithCancel(context.Background())
	if old := b.link.Swap(&link{over, end}); old != nil {
		old.end()
	}
}

// request bounds one request by requestTimeout and by the life of the connection. Every request needs that: servers drop
// those that come while a leader changes, and package jetstream waits as long as its context, however late that ends.
func (b *Bus) request(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	l := b.link.Load()
	if l == nil { // Open is at work
		return ctx, cancel
	}
	stop := context.AfterFunc(l.over, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// errNone: a leader read found nothing.
var errNone = errors.New("no such entry")

// leaderGet reads one message from the stream's leader. Direct gets may be answered by a replica that is behind; what
// decides about a fence must not be.
func (b *Bus) leaderGet(ctx context.Context, request map[string]any) (*nats.Msg, uint64, error) {
	return b.leaderGetFrom(ctx, b.opt.Stream, request)
}

func (b *Bus) leaderGetFrom(ctx context.Context, stream string, request map[string]any) (*nats.Msg, uint64, error) {
	req, err := json.Marshal(request)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := b.request(ctx)
	defer cancel()
	m, err := b.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, req)
	if err != nil {
		return nil, 0, unavailable("read from the log", err)
	}
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
			Hdrs    []byte `json:"hdrs"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &resp); err != nil {
		return nil, 0, unavailable("read from the log", err)
	}
	switch {
	case resp.Error != nil && resp.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, 0, errNone
	case resp.Error != nil && resp.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		if err := b.ensure(ctx); err != nil {
			return nil, 0, err
		}
		return nil, 0, errNone
	case resp.Error != nil:
		return nil, 0, unavailable("read from the log", resp.Error)
	case resp.Message == nil:
		return nil, 0, errNone
	}
	msg := &nats.Msg{Subject: resp.Message.Subject, Data: resp.Message.Data}
	if len(resp.Message.Hdrs) > 0 {
		if msg.Header, err = nats.DecodeHeadersMsg(resp.Message.Hdrs); err != nil {
			return nil, 0, fmt.Errorf("entry %d: %w", resp.Message.Seq, err)
		}
	}
	return msg, resp.Message.Seq, nil
}

// confirmFor is how long an entry that was in the log must be missing before it counts as lost. A leader that shuts down,
// or has just come up, says that it has none for a moment.
const confirmFor = time.Second

// lost asks until the leader has found a message after all, or has denied it for confirmFor.
func (b *Bus) lost(ctx context.Context, stream string, request map[string]any) (bool, error) {
	var since time.Time
	pause := retryFirst
	for {
		_, _, err := b.leaderGetFrom(ctx, stream, request)
		switch {
		case err == nil:
			return false, nil
		case !errors.Is(err, errNone):
			return false, err
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= confirmFor:
			return true, nil
		}
		if err := wait(ctx, &pause); err != nil {
			return false, err
		}
	}
}

// permanent ends a retry.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// retry calls f until it succeeds, fails for good or ctx is done; then the last error is returned.
func retry(ctx context.Context, f func(context.Context) error) error {
	pause := retryFirst
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if p, ok := errors.AsType[permanent](err); ok {
			return p.error
		}
		if wait(ctx, &pause) != nil {
			return err
		}
	}
}

// wait sleeps for *pause, doubles it up to retryMost, and returns early with ctx's error.
func wait(ctx context.Context, pause *time.Duration) error {
	t := time.NewTimer(*pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		*pause = min(*pause*2, retryMost)
		return nil
	}
}
