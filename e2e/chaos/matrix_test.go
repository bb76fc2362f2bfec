//go:build linux

package chaos

import (
	"context"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"
)

// TestMatrix hits a run at every point with every fault of every part. Without -cells or -all it is the cells that the CI
// has time for; TestMatrix/<victim>/<fault>/<point> is a cell.
func TestMatrix(t *testing.T) {
	chosen := func(name string) bool { return *all || *cells == "" && inCI(name) }
	if *cells != "" {
		chosen = regexp.MustCompile(*cells).MatchString
	}
	for _, v := range victims {
		var plan []planned
		for _, f := range faultsOf(v) {
			var at []*point
			for _, p := range points {
				if chosen(v.name + "/" + f.name + "/" + p.name) {
					at = append(at, p)
				}
			}
			if len(at) > 0 && *random == 0 {
				plan = append(plan, planned{victim: v, fault: f, points: at})
			}
		}
		if len(plan) == 0 {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			carryOut(t, plan, func(p planned) string { return p.fault.name })
		})
	}
}

// laterAtMost is when the second fault of a random batch strikes at the latest: in the middle of what the first one has
// started.
const laterAtMost = 8 * time.Second

// TestRandom hits runs with -n cells in a random order, several at once, on one stack, and half of the time with a second
// fault while they recover. The same -seed makes the same plan.
func TestRandom(t *testing.T) {
	if *random == 0 {
		return // TestMatrix has the cells
	}
	r := rand.New(rand.NewPCG(*seed, 0))
	var plan []planned
	for left := *random; left > 0; {
		v := victims[r.IntN(len(victims))]
		f := faultsOf(v)
		p := planned{victim: v, fault: f[r.IntN(len(f))]}
		for _, i := range r.Perm(len(points))[:min(left, 1+r.IntN(len(points)))] {
			p.points = append(p.points, points[i])
		}
		if other := victims[r.IntN(len(victims))]; other != v && other != everything && v != everything && !p.fault.loses && p.fault.after == nil {
			p.then = &second{other, []*fault{kill, cut, slow}[r.IntN(3)], time.Duration(r.Int64N(int64(laterAtMost)))}
		}
		left -= len(p.points)
		plan = append(plan, p)
	}
	t.Logf("seed %d", *seed)
	carryOut(t, plan, planned.String)
}

// inCI chooses the cells that tell the most: where something is on its way, or a frozen worker comes back, or the log is lost.
var inCI = regexp.MustCompile(`^worker/(kill|awake)/|^nats/lost/`).MatchString

// planned is a batch that is to be run.
type planned struct {
	victim *victim
	fault  *fault
	points []*point
	then   *second
}

func (p planned) String() string {
	name := p.victim.name + "-" + p.fault.name
	if p.then != nil {
		name += "-and-" + p.then.victim.name + "-" + p.then.fault.name
	}
	return name
}

// carryOut runs batches one after the other, on one stack as long as it is sound.
func carryOut(t *testing.T, plan []planned, name func(planned) string) {
	t.Helper()
	requireAll(t)
	var s *stack
	defer func() {
		if s != nil {
			s.close()
		}
	}()
	for _, p := range plan {
		if s == nil {
			var err error
			if s, err = openStack(t.Context(), devserver()); err != nil {
				t.Fatal(err)
			}
			// What is measured below is measured against a stack that has done everything once.
			if warm := newBatch(s, p.victim, calm, p.points); !report(t, "calm", warm) {
				return
			}
		}
		b := newBatch(s, p.victim, p.fault, p.points)
		b.then = p.then
		if !report(t, name(p), b) {
			s.close()
			s = nil // it may be half dead
		}
	}
}

// report runs a batch and tells of each cell as a test of its own.
func report(t *testing.T, name string, b *batch) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) {
		began := time.Now()
		b.run(context.WithoutCancel(t.Context()))
		t.Logf("%d cells in %s", len(b.cells), time.Since(began).Round(time.Second))
		for _, c := range b.cells {
			t.Run(c.point.name, func(t *testing.T) {
				for _, err := range c.errs {
					t.Error(err)
				}
			})
			if b.fault != calm && *random == 0 {
				results.add(c, t.Name())
			}
		}
		if b.err != nil {
			t.Error(b.err)
		}
		if t.Failed() {
			t.Log(b.stack.said(t.ArtifactDir()))
		}
	})
}
