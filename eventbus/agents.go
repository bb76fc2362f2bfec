package eventbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// announceTTL is how long an announcement lives without being repeated, and announceEvery how often a worker
	// repeats it: two may be lost before an agent counts as unserved.
	announceTTL   = 15 * time.Second
	announceEvery = 5 * time.Second

	// knownFor is how long a gateway can tell an agent that has no worker from one that never was.
	knownFor = 7 * 24 * time.Hour

	// maxAnnouncement bounds one announcement in bytes.
	maxAnnouncement = 256 << 10
)

// Announcement is what a worker says of one agent it serves.
type Announcement struct {
	Agent        string            `json:"agent"` // [a-z0-9-]
	Description  string            `json:"description,omitempty"`
	TaskQueue    string            `json:"taskQueue"`
	Busy         Busy              `json:"busy,omitempty"`
	Capabilities agui.Capabilities `json:"capabilities"`
	Stopped      bool              `json:"stopped,omitempty"` // the worker left in order
}

// Busy is what an agent has become of a run that is asked for while another of its thread is in progress.
type Busy string

// What becomes of it.
const (
	BusyReject Busy = ""       // it is refused
	BusyQueue  Busy = "queue"  // it waits for the other one's end
	BusyCancel Busy = "cancel" // the other one is cancelled first
)

func (b *Bus) agentsBucket(ctx context.Context) (jetstream.KeyValue, error) {
	ctx, cancel := b.request(ctx)
	defer cancel()
	kv, err := b.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: b.opt.Stream + "_AGENTS", Description: "Agents served by Holdfast workers", TTL: b.opt.announceTTL, LimitMarkerTTL: knownFor,
		Replicas: b.opt.Replicas, MaxValueSize: maxAnnouncement, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return nil, unavailable("agents bucket", err)
	}
	return kv, nil
}

// Announce says until ctx is done that worker serves the agents, then that it stopped. worker is unique among living
// workers and safe in a key. It returns after the first announcement with a function that waits for the last.
func (b *Bus) Announce(ctx context.Context, worker string, agents []Announcement) (stopped func(), err error) {
	var kv jetstream.KeyValue
	put := func(ctx context.Context, gone bool) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		if kv == nil {
			bucket, err := b.agentsBucket(ctx)
			if err != nil {
				return err
			}
			kv = bucket
		}
		for _, a := range agents {
			a.Stopped = gone
			data, err := json.Marshal(a)
			if err != nil {
				return permanent{err}
			}
			if len(data) > maxAnnouncement {
				return permanent{fmt.Errorf("agent %s: its announcement has %d bytes, limit %d: shorten descriptions or tool schemas", a.Agent, len(data), maxAnnouncement)}
			}
			if _, err := kv.Put(ctx, a.Agent+"."+worker, data); err != nil {
				kv = nil // the bucket may have gone with the log
				return unavailable("announce agents", err)
			}
		}
		return nil
	}
	if err := retry(ctx, func(ctx context.Context) error { return put(ctx, false) }); err != nil {
		return nil, err
	}
	var done sync.WaitGroup
	done.Go(func() {
		t := time.NewTicker(b.opt.announceEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				if err := put(context.WithoutCancel(ctx), true); err != nil {
					b.log.Warn("agents not signed off; they expire by themselves", "error", err)
				}
				return
			case <-t.C:
				if err := put(ctx, false); err != nil && ctx.Err() == nil {
					b.log.Warn("agents not announced", "error", err)
				}
			}
		}
	})
	return done.Wait, nil
}

// Directory is the agents that workers announce, as of now. It is safe for concurrent use.
type Directory struct {
	ttl time.Duration

	mu    sync.Mutex
	seen  map[string]map[string]announced // agent → worker
	known map[string]bool
}

type announced struct {
	Announcement
	at time.Time // received; clocks of other machines don't matter
}

// Directory starts watching the announcements until ctx is done or the Bus is closed. It blocks until what is there has
// been read.
func (b *Bus) Directory(ctx context.Context) (*Directory, error) {
	d := &Directory{ttl: b.opt.announceTTL, seen: map[string]map[string]announced{}, known: map[string]bool{}}
	ready := make(chan struct{})
	var once sync.Once
	wctx, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		cancel()
		return nil, fmt.Errorf("read announced agents: event log closed: %w", ErrUnavailable)
	}
	b.watches = append(b.watches, cancel)
	b.done.Go(func() {
		defer cancel()
		pause := retryFirst
		for {
			err := b.watchAgents(wctx, d, func() { once.Do(func() { close(ready) }); pause = retryFirst })
			if wctx.Err() != nil {
				return
			}
			b.log.Debug("agents watch ended, watching again", "error", err)
			if wait(wctx, &pause) != nil {
				return
			}
		}
	})
	b.mu.Unlock()
	select {
	case <-ready:
		return d, nil
	case <-wctx.Done():
		cancel()
		return nil, fmt.Errorf("read announced agents: %w: %w", ErrUnavailable, wctx.Err())
	}
}

// watchAgents follows the announcements until ctx is done, the watch fails or the connection has been made anew: the
// server forgets a watch when it stops, and package jetstream notices only after missed heartbeats, when every
// announcement has expired.
func (b *Bus) watchAgents(ctx context.Context, d *Directory, ready func()) error {
	over := b.link.Load().over
	kv, err := b.agentsBucket(ctx)
	if err != nil {
		return err
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return unavailable("watch agents", err)
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over.Done():
			return errors.New("reconnected")
		case e, ok := <-w.Updates():
			if !ok {
				return errors.New("watch closed")
			}
			if e == nil { // all that was there has come
				ready()
				continue
			}
			d.update(e)
		}
	}
}

func (d *Directory) update(e jetstream.KeyValueEntry) {
	agent, worker, ok := strings.Cut(e.Key(), ".")
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[agent] = true
	var a Announcement
	if e.Operation() != jetstream.KeyValuePut || json.Unmarshal(e.Value(), &a) != nil || a.Agent != agent || a.Stopped {
		delete(d.seen[agent], worker)
		return
	}
	if d.seen[agent] == nil {
		d.seen[agent] = map[string]announced{}
	}
	d.seen[agent][worker] = announced{Announcement: a, at: time.Now()}
}

// Agent returns the announcement of an agent. served says whether a worker announced it within the last 15 s; known
// says whether one ever did (within a week), so that "no worker now" can be told from "no such agent".
func (d *Directory) Agent(name string) (a Announcement, served, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var newest time.Time
	for worker, s := range d.seen[name] {
		if time.Since(s.at) > d.ttl {
			delete(d.seen[name], worker)
			continue
		}
		if s.at.After(newest) {
			a, served, newest = s.Announcement, true, s.at
		}
	}
	return a, served, d.known[name]
}

// Agents returns all agents that are served, in the order of their names.
func (d *Directory) Agents() []Announcement {
	d.mu.Lock()
	names := make([]string, 0, len(d.seen))
	for name := range d.seen {
		names = append(names, name)
	}
	d.mu.Unlock()
	slices.Sort(names)
	var list []Announcement
	for _, name := range names {
		if a, served, _ := d.Agent(name); served {
			list = append(list, a)
		}
	}
	return list
}
