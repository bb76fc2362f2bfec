package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/sse"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
)

// C059: reading on from an event id is exact, whatever the id is.
func TestReadingOnFromAnEventID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("r1").counts()
	r.write("r2").counts()
	one := r.writeAs(eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "one entry"}, 1, 1)
	var digits []agui.Event
	for _, d := range "0123456789" {
		digits = append(digits, &agui.TextMessageContent{MessageID: "m", Delta: string(d)})
	}
	one.says(append(append([]agui.Event{one.started("d"), &agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)}}, digits...),
		&agui.TextMessageEnd{MessageID: "m"}, &agui.RunFinished{ThreadID: "t1", RunID: "one entry", Outcome: agui.Success()})...)
	one.leaves()

	whole := map[string][]sse.Event{}
	for _, run := range []string{"r1", "r2", "one entry"} { // 3: no id
		whole[run] = r.ask(http.MethodGet, events("t1", run), "").whole()
		same(t, run, ten, brief(whole[run]))
	}
	t.Run("from every event", func(t *testing.T) { // 1, at every place
		for run, frames := range whole {
			for i, f := range frames[:len(frames)-1] {
				s := r.ask(http.MethodGet, events("t1", run), "", "Last-Event-ID", f.ID)
				same(t, run+" behind "+f.ID, frames[i+1:], s.whole())
			}
		}
	})
	t.Run("from the last event", func(t *testing.T) { // 2
		for run, frames := range whole {
			s := r.ask(http.MethodGet, events("t1", run), "", "Last-Event-ID", frames[len(frames)-1].ID)
			body, err := io.ReadAll(s.Body)
			if s.StatusCode != http.StatusNoContent || len(body) > 0 || err != nil {
				t.Errorf("%s: got %s, %q, %v", run, s.Status, body, err)
			}
		}
	})
	t.Run("from another run's event", func(t *testing.T) { // 4
		r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", whole["r2"][3].ID).refused(http.StatusBadRequest, gateway.CodeEventID, "Last-Event-ID")
	})
	t.Run("from what is no id", func(t *testing.T) { // 5
		epoch, _, _ := strings.Cut(whole["r1"][0].ID, "-")
		for _, id := range []string{
			"abc", "-1", "99999999999999999999", "--", epoch, epoch + "-", epoch + "-0-0", epoch + "-1-", epoch + "-1-99999999999999999999", epoch + "--1-0",
			epoch + "-1-0-0", " " + whole["r1"][0].ID + "x", strings.Repeat("9", 5000), "*", "\xff",
			strings.TrimSuffix(whole["r1"][2].ID, "0") + "7", // an event that the entry does not have
		} {
			r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", id).refused(http.StatusBadRequest, gateway.CodeEventID, "Last-Event-ID")
		}
		same(t, "an empty id", ten, brief(r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", "").whole()))
	})
	t.Run("from an event that is not there yet", func(t *testing.T) {
		epoch, _, _ := strings.Cut(whole["r1"][0].ID, "-")
		r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", epoch+"-4000000-0").refused(http.StatusGone, gateway.CodeHistoryGone, "")
	})
	t.Run("from an event of another log", func(t *testing.T) {
		_, rest, _ := strings.Cut(whole["r1"][0].ID, "-")
		r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", "abcdefgh-"+rest).refused(http.StatusGone, gateway.CodeHistoryGone, "")
	})
}

// C059, 6: any number of readers, from different places, each get everything, live.
func TestManyReadersOfALiveRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	w.begins("d")
	w.says(&agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)})
	first := r.ask(http.MethodGet, events("t1", "r1"), "").take(2)

	var done sync.WaitGroup
	got := make([][]string, 8)
	attached := make(chan struct{}, len(got))
	for i := range got {
		s := r.ask(http.MethodGet, events("t1", "r1"), "") // the headers are there: it reads
		if i%2 == 1 {
			s = r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", first[1].ID)
		}
		done.Go(func() {
			attached <- struct{}{}
			got[i] = brief(s.whole())
		})
	}
	for range got {
		<-attached
	}
	for i := range 10 {
		w.digit(i)
	}
	w.says(&agui.TextMessageEnd{MessageID: "m"})
	w.ends()
	done.Wait()
	for i := range got {
		if i%2 == 1 {
			same(t, "from an id", ten[2:], got[i])
		} else {
			same(t, "from the start", ten, got[i])
		}
	}
}

// C059, 7: what was deleted is gone, and nobody gets the rest of a message without its start.
func TestReadingWhatWasDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("r1").counts()
	frames := r.ask(http.MethodGet, events("t1", "r1"), "").whole()
	keep := frames[9]
	_, sequence, _ := strings.Cut(keep.ID, "-")
	sequence, _, _ = strings.Cut(sequence, "-")
	r.purge(`{"seq":` + sequence + `}`)

	r.ask(http.MethodGet, events("t1", "r1"), "").refused(http.StatusGone, gateway.CodeHistoryGone, "")
	r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", frames[3].ID).refused(http.StatusGone, gateway.CodeHistoryGone, "")
	// Who has everything up to what is left misses nothing.
	same(t, "rest", frames[10:], r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", keep.ID).whole())

	r.purge("")
	r.ask(http.MethodGet, events("t1", "r1"), "").refused(http.StatusNotFound, gateway.CodeRunUnknown, "run")
	r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", frames[3].ID).refused(http.StatusGone, gateway.CodeHistoryGone, "")
}

func (r *rig) purge(what string) {
	r.t.Helper()
	if _, err := r.nc.Request("$JS.API.STREAM.PURGE.HOLDFAST", []byte(what), patience); err != nil {
		r.t.Fatal(err)
	}
}

// A log that was deleted and made anew numbers its events from 1 again: old ids must not find somebody else's.
func TestReadingALogThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("r1").counts()
	frames := r.ask(http.MethodGet, events("t1", "r1"), "").whole()
	if _, err := r.nc.Request("$JS.API.STREAM.DELETE.HOLDFAST", nil, patience); err != nil {
		t.Fatal(err)
	}
	_, fresh := openLog(t, r.nats.URL())
	r.bus = fresh
	r.write("r1").counts()
	r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", frames[3].ID).refused(http.StatusGone, gateway.CodeHistoryGone, "")
	same(t, "from the start", ten, brief(r.ask(http.MethodGet, events("t1", "r1"), "").whole()))
}

func TestReadingARunThatIsNotThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("r1").counts()
	for _, path := range []string{events("t1", "r2"), events("t2", "r1"), events("*", "*"), events("t1", ">"), events("t1", "r1.0")} {
		r.ask(http.MethodGet, path, "").refused(http.StatusNotFound, gateway.CodeRunUnknown, "run")
	}
	// A thread that runs something else does not run this.
	r.engine.set("default", "t1", execution{run: "r3", open: true})
	r.ask(http.MethodGet, events("t1", "r2"), "").refused(http.StatusNotFound, gateway.CodeRunUnknown, "run")
}

// A run that was started and has not written yet is waited for.
func TestReadingARunThatHasNotBegun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.set("default", "t1", execution{run: "r1", open: true})
	s := r.ask(http.MethodGet, events("t1", "r1"), "")
	r.write("r1").counts()
	same(t, "events", ten, brief(s.whole()))
}

// The events of a fan-out come in the log's order, to those who read on in the middle, too.
func TestReadingAFanout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "r1"}
	w := r.write("r1")
	w.begins("d")
	w.leaves()
	lane := func(name string, number int64) *eventbus.Lane {
		l, err := r.bus.OpenLane(t.Context(), eventbus.LaneConfig{
			Run: key, Lane: name, Execution: "execution", Writer: "w" + name, Generation: eventbus.Generation{Start: 1, Number: number, Attempt: 1}, Fanout: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, l)
		return l
	}
	live := r.ask(http.MethodGet, events("t1", "r1"), "")
	lanes := []*author{
		{r: r, key: key, lane: lane(eventbus.MainLane, 2)}, {r: r, key: key, lane: lane("1", 3)}, {r: r, key: key, lane: lane("2", 4)},
	}
	want := []string{"RUN_STARTED"}
	for i := range 12 {
		lanes[i%3].says(&agui.Custom{Name: "n", Value: []byte("1")}, &agui.TextMessageContent{MessageID: "m", Delta: string(rune('a' + i))})
		want = append(want, "CUSTOM", string(rune('a'+i)))
	}
	for _, l := range lanes {
		l.leaves()
	}
	end := r.writeAs(key, 5, 1)
	end.ends()
	want = append(want, "RUN_FINISHED")
	frames := live.whole()
	same(t, "live", want, brief(frames))
	for i, f := range frames[:len(frames)-1] {
		same(t, "behind "+f.ID, frames[i+1:], r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", f.ID).whole())
	}
}

// Bytes come as they were appended, whatever they are.
func TestEventsComeByteForByte(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	big := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB: beyond one message of the log
	sent := []agui.Event{
		w.started("d"),
		&agui.Custom{Name: "<&\u2028\x00😀>", Value: []byte(`{"n":9007199254740993,"s":"\u0000\r\n\n"}`)},
		&agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)},
		&agui.TextMessageContent{MessageID: "m", Delta: big},
		&agui.TextMessageEnd{MessageID: "m"},
		&agui.RunFinished{ThreadID: "t1", RunID: "r1", Outcome: agui.Success()},
	}
	w.says(sent...)
	w.leaves()
	frames := r.ask(http.MethodGet, events("t1", "r1"), "").whole()
	if len(frames) != len(sent) {
		t.Fatalf("%d frames, want %d", len(frames), len(sent))
	}
	for i, e := range sent {
		data, err := agui.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if string(frames[i].Data) != string(data) {
			t.Errorf("frame %d is %.100s, want %.100s", i, frames[i].Data, data)
		}
	}
}
