package eventbus

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// A stream made by hand with settings that break a guarantee is refused, with the setting named.
func TestOpenRefusesAStreamThatBreaksAGuarantee(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*jetstream.StreamConfig)
		want   string // in the error; "" for none
	}{
		"as it should be":     {func(*jetstream.StreamConfig) {}, ""},
		"age limit":           {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, ""},
		"full is full":        {func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 1<<30, jetstream.DiscardNew }, ""},
		"no direct gets":      {func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "allow_direct"},
		"no republishing":     {func(c *jetstream.StreamConfig) { c.RePublish = nil }, "republish"},
		"other live subjects": {func(c *jetstream.StreamConfig) { c.RePublish.Destination = "other.>" }, "republish"},
		"headers only":        {func(c *jetstream.StreamConfig) { c.RePublish.HeadersOnly = true }, "republish"},
		"other subjects":      {func(c *jetstream.StreamConfig) { c.Subjects = []string{"holdfast.log.default.>"} }, "subjects"},
		"few a subject":       {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1000 }, "max_msgs_per_subject"},
		"old bytes deleted":   {func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 }, "discard"},
		"old entries deleted": {func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 << 20 }, "discard"},
		"no acks":             {func(c *jetstream.StreamConfig) { c.NoAck = true }, "no_ack"},
		"read once":           {func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, "retention"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			nc := connect(t, eventbustest.Start(t))
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			cfg := (&Bus{opt: Options{Stream: defaultStream, Replicas: 1}, prefix: "holdfast.log.", live: "holdfast.live."}).streamConfig()
			tc.change(&cfg)
			if _, err := js.CreateStream(ctx, cfg); err != nil {
				t.Fatal(err)
			}
			b, err := Open(ctx, nc, Options{})
			if err == nil {
				b.Close()
			}
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Open: %v, want %q in the error", err, tc.want)
			}
		})
	}
}

// Several logs may share a NATS account.
func TestStreamsKeepApart(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	one, two := openBus(t, srv.URL(), Options{}), openBus(t, srv.URL(), Options{Stream: "OTHER"})
	reader := follow(t, two, testRun, 0)
	write(t, one, writing(1), delta("one"), sized(t, 2_000_000), finished(testRun))
	write(t, two, writing(1), delta("two"), finished(testRun))
	wantTexts(t, texts(t, readAll(t, reader)), []string{"two", "RUN_FINISHED"})
	if got := stored(t, one, testRun); len(texts(t, got)) != 3 {
		t.Errorf("the first log has %d events, want 3", len(texts(t, got)))
	}
}

// All processes of a new installation open the log at the same time.
func TestOpenRaces(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	var wg sync.WaitGroup
	for i := range 8 {
		nc := connect(t, srv.URL())
		wg.Go(func() {
			b, err := Open(testContext(t), nc, Options{MaxAge: time.Duration(i) * time.Hour, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			b.Close()
		})
	}
	wg.Wait()
}

func TestConnectWaitsForTheServer(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	srv.Stop()
	ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	if nc, err := Connect(ctx, srv.URL(), "test", slog.New(slog.DiscardHandler)); err == nil {
		nc.Close()
		t.Error("connected to nothing")
	}
	done := make(chan error, 1)
	go func() {
		nc, err := Connect(testContext(t), srv.URL(), "test", slog.New(slog.DiscardHandler))
		if err == nil {
			nc.Close()
		}
		done <- err
	}()
	srv.Start()
	if err := <-done; err != nil {
		t.Errorf("Connect: %v", err)
	}
}

func TestOpenWithoutJetStreamSaysSo(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t, eventbustest.WithoutJetStream)
	ctx, cancel := context.WithTimeout(testContext(t), 200*time.Millisecond)
	defer cancel()
	b, err := Open(ctx, connect(t, srv.URL()), Options{})
	if err == nil {
		b.Close()
	}
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("Open: %v, want ErrUnavailable", err)
	}
}

func TestOpenRefusesATinyPayloadLimit(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t, eventbustest.MaxPayload(minEntry-1))
	b, err := Open(testContext(t), connect(t, srv.URL()), Options{})
	if err == nil {
		b.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("Open: %v, want max_payload in the error", err)
	}
}

func TestSmallPayloadLimitIsKept(t *testing.T) {
	t.Parallel()
	b := openBus(t, eventbustest.New(t, eventbustest.MaxPayload(minEntry)).URL(), Options{})
	write(t, b, writing(1), sized(t, 1000), sized(t, minEntry), sized(t, minEntry-100), sized(t, 1000), finished(testRun))
	if got := texts(t, readAll(t, follow(t, b, testRun, 0))); len(got) != 5 || len(got[1]) < minEntry-100 {
		t.Errorf("%d events", len(got))
	}
}

func TestEpochNamesTheStream(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	one, two := openBus(t, srv.URL(), Options{}), openBus(t, srv.URL(), Options{})
	before := one.Epoch()
	if before == "" || before != two.Epoch() {
		t.Errorf("epochs %q and %q of one stream", before, two.Epoch())
	}
	srv.Stop()
	srv.Start()
	again := openBus(t, srv.URL(), Options{})
	if again.Epoch() != before {
		t.Errorf("epoch %q after a restart, want %q", again.Epoch(), before)
	}
	if err := again.js.DeleteStream(testContext(t), again.opt.Stream); err != nil {
		t.Fatal(err)
	}
	if err := again.Ready(testContext(t)); err != nil {
		t.Errorf("Ready after the stream was deleted: %v, want it made anew", err)
	}
	if again.Epoch() == before {
		t.Error("the new stream has the old one's epoch")
	}
}
