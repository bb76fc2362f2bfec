package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Wait is the workflow of a run that waits for people: a few events of history and a timer for the first expiry. It goes
// on as [RunType] when it is answered. Whatever code is deployed by then takes it up.
//
// A pause of a later version than this code knows takes no answer: that is an error with a name, and anything else that
// would have it go on waits for a worker that knows better.
func (r *Runner) Wait(ctx workflow.Context, p Pause) (RunResult, error) {
	d := &desk{kept: &p.Kept, pause: &p, describe: p.status}
	if p.Version > PauseVersion {
		d.refuses = refuse(CodePauseVersion, "", "the pause is of version %d, and this worker knows %d at most", p.Version, PauseVersion)
	}
	if err := d.open(ctx); err != nil {
		return RunResult{}, err
	}
	d.wait(ctx)
	if err := settle(ctx, d); err != nil {
		return RunResult{}, err
	}
	if d.onward != nil {
		return RunResult{}, d.goOn(ctx)
	}
	return RunResult{}, temporal.NewCanceledError(p.cancelled())
}

// wait blocks until it is decided which run goes on, or that none does: the pause was cancelled, by somebody or by an
// expiry.
func (d *desk) wait(ctx workflow.Context) {
	c := clock{at: d.pause.Expires}
	c.start(ctx)
	defer func() { c.stop() }()
	for d.onward == nil {
		if err := workflow.Await(ctx, func() bool { return d.onward != nil || d.signals.Len() > 0 || c.struck() }); err != nil {
			return
		}
		if d.refuses != nil {
			panic(fmt.Sprintf("this worker does not know pauses of version %d", d.pause.Version))
		}
		d.drain(ctx)
		if d.onward == nil && c.struck() {
			if d.pause.expire(workflow.Now(ctx)) {
				return
			}
			d.decide(Resumption{})
		}
		if next := d.pause.expires(); d.onward == nil && (c.struck() || !next.Equal(c.at)) {
			c.stop()
			c = clock{at: next}
			c.start(ctx)
		}
	}
}

// clock strikes when the first question expires; never if there is no such time.
type clock struct {
	at    time.Time
	timer workflow.Future
	stop  func()
}

func (c *clock) start(ctx workflow.Context) {
	ctx, c.stop = workflow.WithCancel(ctx)
	if !c.at.IsZero() {
		c.timer = workflow.NewTimer(ctx, max(c.at.Sub(workflow.Now(ctx)), time.Millisecond))
	}
}

func (c *clock) struck() bool { return c.timer != nil && c.timer.IsReady() }
