package eventbus

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

// A lane that is behind where it was left is opened by nobody before it was restated, and it is restated once, however many
// find it so.
func TestLaneThatLostEntriesIsHealedOnce(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	l := openLane(t, b, writing(1))
	if err := errors.Join(l.AppendOutbox(ctx, 1, deltas("o", 3)...), l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	next := writing(2)
	next.After = l.Mark()
	if whole, err := b.Whole(ctx, next); !whole || err != nil {
		t.Errorf("whole: %t, %v", whole, err)
	}
	if err := b.js.DeleteStream(ctx, b.opt.Stream); err != nil {
		t.Fatal(err)
	}
	if _, err := b.OpenLane(ctx, next); !errors.Is(err, ErrLaneLost) {
		t.Fatalf("open behind the loss: %v, want ErrLaneLost", err)
	}
	said := encode(t, delta("restated"))
	var healers sync.WaitGroup
	for range 5 {
		healers.Go(func() {
			err := b.Heal(ctx, next, 4, func(left []json.RawMessage) ([]json.RawMessage, error) { return []json.RawMessage{said}, nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	healers.Wait()
	healed := openLane(t, b, next)
	if p := healed.Previous(); !p.Healed() || p.Ordinal != 4 || p.Open.Healing {
		t.Errorf("previous %+v", p)
	}
	if err := errors.Join(healed.AppendOutbox(ctx, 4, deltas("p", 2)...), healed.Append(ctx, finished(testRun)), healed.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, texts(t, stored(t, b, testRun)), []string{"restated", "p1", "RUN_FINISHED"})
}

// Who dies in the middle of healing leaves a lane that nobody goes on with before another has healed it, from what is left.
func TestHalfHealedLaneIsHealedAgain(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	next := writing(2)
	next.After = Mark{Sequence: 9, Generation: writing(1).Generation}
	half := next
	half.Writer, half.heals, half.After = "heal-dead", true, Mark{}
	half.Generation = next.After.Generation
	half.Generation.Attempt = healAttempt
	write(t, b, half, &agui.RunStarted{ThreadID: "t1", RunID: "r1"})
	if _, err := b.OpenLane(ctx, next); !errors.Is(err, ErrLaneLost) {
		t.Errorf("open half a lane: %v, want ErrLaneLost", err)
	}
	err := b.Heal(ctx, next, 2, func(left []json.RawMessage) ([]json.RawMessage, error) {
		if len(left) != 1 {
			t.Errorf("left %s", left)
		}
		return []json.RawMessage{encode(t, delta("the rest"))}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, b, next, delta("on"))
	wantTexts(t, texts(t, stored(t, b, testRun)), []string{"RUN_STARTED", "the rest", "on"})
}
