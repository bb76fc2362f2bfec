package eventbus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// soon makes announcements expire in a second, the least that JetStream can.
var soon = Options{announceTTL: time.Second, announceEvery: 200 * time.Millisecond}

func announce(t *testing.T, b *Bus, worker string, agents ...string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	var list []Announcement
	for _, name := range agents {
		list = append(list, Announcement{Agent: name, Description: "from " + worker, TaskQueue: "queue-" + worker})
	}
	stopped, err := b.Announce(ctx, worker, list)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	leave = func() {
		cancel()
		stopped()
	}
	t.Cleanup(leave)
	return leave
}

func directory(t *testing.T, b *Bus) *Directory {
	t.Helper()
	d, err := b.Directory(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func served(d *Directory, name string) bool {
	_, ok, _ := d.Agent(name)
	return ok
}

func names(d *Directory) []string {
	var all []string
	for _, a := range d.Agents() {
		all = append(all, a.Agent)
	}
	return all
}

func TestAgentsAreServedUntilTheirWorkersLeave(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	gateway := openBus(t, srv.URL(), soon)
	d := directory(t, gateway)
	if _, served, known := d.Agent("writer"); served || known {
		t.Errorf("an agent that nobody announced: served %v, known %v", served, known)
	}
	leave1 := announce(t, openBus(t, srv.URL(), soon), "w1", "writer", "asker")
	eventually(t, "agents of w1", func() bool { return slices.Equal(names(d), []string{"asker", "writer"}) })
	if a, served, known := d.Agent("writer"); !served || !known || a.TaskQueue != "queue-w1" || a.Description != "from w1" {
		t.Errorf("writer: %+v, served %v, known %v", a, served, known)
	}
	leave2 := announce(t, openBus(t, srv.URL(), soon), "w2", "writer")
	eventually(t, "writer of w2", func() bool { a, _, _ := d.Agent("writer"); return a.TaskQueue == "queue-w2" })

	// w1 leaves in order: at once what only it served is not served any more.
	leave1()
	eventually(t, "asker gone", func() bool { return slices.Equal(names(d), []string{"writer"}) })
	if _, served, known := d.Agent("asker"); served || !known {
		t.Errorf("asker: served %v, known %v, want an agent without a worker", served, known)
	}
	leave2()
	eventually(t, "nobody left", func() bool { return len(names(d)) == 0 })
	// A gateway that starts now can tell them from agents that never were.
	late := directory(t, openBus(t, srv.URL(), soon))
	for name, want := range map[string]bool{"writer": true, "asker": true, "other": false} {
		if _, served, known := late.Agent(name); served || known != want {
			t.Errorf("%s in a new directory: served %v, known %v, want known %v", name, served, known, want)
		}
	}
}

// A worker that is killed says nothing.
func TestAgentsOfADeadWorkerExpire(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	d := directory(t, openBus(t, srv.URL(), soon))
	worker := openBus(t, srv.URL(), soon)
	announce(t, worker, "w1", "writer")
	eventually(t, "writer served", func() bool { return served(d, "writer") })
	worker.nc.Close()
	eventually(t, "writer expired", func() bool { return !served(d, "writer") })
	if _, _, known := d.Agent("writer"); !known {
		t.Error("writer is not known any more")
	}
	late := openBus(t, srv.URL(), soon)
	eventually(t, "known to those who come later", func() bool {
		_, served, known := directory(t, late).Agent("writer")
		return !served && known
	})
}

func TestAnnouncementsSurviveARestartOfNATS(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	d := directory(t, openBus(t, srv.URL(), soon))
	leave := announce(t, openBus(t, srv.URL(), soon), "w1", "writer")
	eventually(t, "writer served", func() bool { return served(d, "writer") })
	srv.Stop()
	// Nobody can tell whether the worker lives: what is not repeated counts as gone.
	eventually(t, "writer expired during the outage", func() bool { return !served(d, "writer") })
	srv.Start()
	back := time.Now()
	eventually(t, "writer served again", func() bool { return served(d, "writer") })
	// Left to itself, package jetstream takes up a lost watch after 20 s.
	if took := time.Since(back); took > 10*time.Second {
		t.Errorf("writer served again %s after NATS", took)
	}
	leave()
	eventually(t, "writer signed off", func() bool { return !served(d, "writer") })

	// The bucket may be lost with everything else.
	leave = announce(t, openBus(t, srv.URL(), soon), "w2", "writer")
	eventually(t, "writer served", func() bool { return served(d, "writer") })
	b := openBus(t, srv.URL(), soon)
	if err := b.js.DeleteKeyValue(testContext(t), "HOLDFAST_AGENTS"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker has made the bucket anew", func() bool { return served(directory(t, b), "writer") })
	leave()
	eventually(t, "writer signed off", func() bool { return !served(d, "writer") })
}

func TestAnnounceRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	_, err := b.Announce(testContext(t), "w1", []Announcement{{Agent: "writer", Description: strings.Repeat("x", maxAnnouncement)}})
	if err == nil || !strings.Contains(err.Error(), "writer") {
		t.Errorf("announcement of %d bytes: %v, want an error that names the agent", maxAnnouncement, err)
	}
}

func TestDirectoryIgnoresWhatIsNoAnnouncement(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	d := directory(t, b)
	kv, err := b.agentsBucket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"plain": `{}`, "a.w1": `not JSON`, "b.w1": `{"agent":"other"}`, "c.w1": ``} {
		if _, err := kv.PutString(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	announce(t, b, "w1", "writer")
	eventually(t, "writer served", func() bool { return served(d, "writer") })
	if got := names(d); len(got) != 1 {
		t.Errorf("agents %v, want writer alone", got)
	}
}

func TestDirectoryEndsWithTheBus(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	directory(t, b)
	b.Close()
	if _, err := b.Directory(testContext(t)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Directory of a closed Bus: %v, want ErrUnavailable", err)
	}
}
