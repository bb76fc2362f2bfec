package workflows

import (
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// desk takes answers, by the update and by the signal, for as long as a workflow run goes on. It is open from the first
// line of a workflow on, so that no answer comes too early. All of it is rebuilt by replay.
type desk struct {
	kept    *Kept
	pause   *Pause  // what is open; nil: nothing is
	onward  *Onward // the run that goes on, once that is decided
	signals workflow.ReceiveChannel
	// refuses, if set, says why no answer can be taken at all.
	refuses *AnswerError
	// describe is what the query tells.
	describe func() ThreadStatus
}

// open registers the handlers.
func (d *desk) open(ctx workflow.Context) error {
	d.signals = workflow.GetSignalChannel(ctx, resumeName)
	if err := workflow.SetQueryHandler(ctx, describeName, func() (ThreadStatus, error) { return d.describe(), nil }); err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, resumeName, func(ctx workflow.Context, r Resumption) (Resumed, error) {
		out, refused := d.accept(ctx, r)
		if refused != nil {
			return Resumed{}, refused.refusal() // between the validator and this, somebody else has answered
		}
		return out, nil
	}, workflow.UpdateHandlerOptions{
		Description: "Answers interrupts.",
		Validator: func(ctx workflow.Context, r Resumption) error {
			if _, refused := d.judge(workflow.Now(ctx), r); refused != nil {
				return refused.refusal()
			}
			return nil
		},
	})
}

// drain takes the signals that are there.
func (d *desk) drain(ctx workflow.Context) {
	for {
		var r Resumption
		if !d.signals.ReceiveAsync(&r) {
			return
		}
		if r.By.Via == "" {
			r.By.Via = "signal"
		}
		if _, refused := d.accept(ctx, r); refused != nil {
			workflow.GetLogger(ctx).Warn("a signal's answers were refused", "code", refused.Code, "reason", refused.Message)
		}
	}
}

// judgement is what answers amount to.
type judgement struct {
	fresh   []agent.Response // answers that count from now on
	settled Resumed          // what came of those that were given before
	kept    bool             // some were given before, and wait for others
}

// judge says what answers amount to, or why they are refused. It changes nothing.
func (d *desk) judge(now time.Time, r Resumption) (judgement, *AnswerError) {
	var j judgement
	switch {
	case d.refuses != nil:
		return j, d.refuses
	case len(r.Entries) == 0:
		return j, refuse(CodeUnanswered, "resume", "there is no answer")
	case d.pause == nil:
		out, refused := d.kept.repeated(r)
		if refused != nil && refused.Code == CodeNothingToResume {
			refused = refuse(CodeThreadBusy, "resume", "a run is in progress, and waits for no answer")
		}
		return judgement{settled: out}, refused
	case r.RunID != "" && r.RunID == d.pause.Input.RunID:
		return j, refuse(CodeAnswerInvalid, "runId", "run %q is the one that asks: the run that goes on needs an id of its own", r.RunID)
	}
	for i, e := range r.Entries {
		if refused := d.judgeEntry(now, i, e, &j); refused != nil {
			return j, refused
		}
	}
	if j.settled.RunID == "" {
		j.settled.RunID = d.pause.Kept.effect(r)
	}
	switch {
	case d.onward != nil && len(j.fresh) > 0 && r.RunID != "" && r.RunID != d.onward.Run:
		return j, refuse(CodeThreadBusy, "resume", "another answer has the run go on, as %q", d.onward.Run)
	case len(j.fresh) == 0 && !j.kept && j.settled.RunID == "":
		return j, refuse(CodeUnanswered, "resume", "the answers cover none of the open interrupts")
	}
	return j, nil
}

func (d *desk) judgeEntry(now time.Time, i int, e agui.ResumeEntry, j *judgement) *AnswerError {
	if earlier := d.pause.response(e.InterruptID); earlier != nil {
		g := Given{Digest: answerDigest(earlier.Entry)}
		if earlier.Decision.Via == agent.ViaExpiry {
			g.Digest = ""
		}
		if d.onward != nil {
			j.settled.RunID = d.onward.Run
		}
		j.kept = true
		return g.again(i, e)
	}
	q, open := d.pause.Run.Question(e.InterruptID)
	if !open {
		if g, known := d.pause.Kept.given(e.InterruptID); known {
			return g.again(i, e)
		}
		j.settled.Ignored = append(j.settled.Ignored, e.InterruptID)
		return nil
	}
	for _, other := range j.fresh {
		if other.Entry.InterruptID != e.InterruptID {
			continue
		}
		if answerDigest(other.Entry) != answerDigest(e) {
			return refuse(CodeConflict, entryField(i, ""), "interrupt %q is answered twice, in different ways", e.InterruptID)
		}
		return nil
	}
	if !q.Expires.IsZero() && !now.Before(q.Expires) && e.Status != agui.ResumeCancelled {
		return refuse(CodeExpired, entryField(i, ""), "interrupt %q has expired at %s", e.InterruptID, q.Expires.Format(time.RFC3339))
	}
	decision, err := d.pause.Run.Judge(q, e)
	if err != nil {
		return invalid(i, err)
	}
	j.fresh = append(j.fresh, agent.Response{Entry: e, Decision: decision})
	return nil
}

func invalid(i int, err error) *AnswerError {
	member := "payload"
	text := err.Error()
	if p, ok := err.(*agent.PayloadError); ok { //nolint:errorlint // it is what Judge returns
		member, text = p.Field, p.Err.Error()
	}
	return refuse(CodeAnswerInvalid, entryField(i, member), "%s", text)
}

// accept takes answers.
func (d *desk) accept(ctx workflow.Context, r Resumption) (Resumed, *AnswerError) {
	now := workflow.Now(ctx).UTC()
	j, refused := d.judge(now, r)
	if refused != nil {
		return Resumed{}, refused
	}
	if len(j.settled.Ignored) > 0 {
		workflow.GetLogger(ctx).Warn("answers to interrupts that nobody raised were passed over", "interrupts", j.settled.Ignored)
	}
	if d.pause == nil || len(j.fresh) == 0 && !j.kept {
		return j.settled, nil
	}
	for _, answer := range j.fresh {
		answer.Decision.By, answer.Decision.Via, answer.Decision.About, answer.Decision.At = r.By.Principal, r.By.Via, r.By.Metadata, now
		d.pause.Responses = append(d.pause.Responses, answer)
	}
	d.decide(r)
	out := j.settled
	if d.onward != nil {
		out.RunID = d.onward.Run
	}
	return out, nil
}

// decide says which run goes on, if one does.
func (d *desk) decide(r Resumption) {
	switch {
	case d.onward != nil:
	case r.RunID != "":
		d.onward = &Onward{Run: r.RunID, Digest: r.Digest, Input: r.Input}
	case len(d.pause.open()) == 0:
		d.onward = new(d.pause.onward())
		if r.Input != nil {
			d.onward.Input, d.onward.Digest = r.Input, r.Digest
		}
	}
}

// goOn continues as the run that goes on.
func (d *desk) goOn(ctx workflow.Context) error {
	in := d.pause.next(*d.onward)
	in.Resume.Cancel = ctx.Err() != nil
	fit(&in, d.pause.Room)
	return upgraded(ctx, RunType, in)
}

// fit leaves out of what a run begins with what it can do without, until it fits.
func fit(in *RunInput, room room) {
	for _, shorten := range []func(){
		func() { in.Kept.Messages = nil }, // the checkpoint has them
		func() { in.Kept.Ledger = lastOf(in.Kept.Ledger, 10) },
		func() { in.Input.ForwardedProps = nil },
	} {
		if room.holds(in) {
			return
		}
		shorten()
	}
}

// lastOf is the end of a list.
func lastOf[T any](list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	return slices.Clone(list[len(list)-n:])
}

func itoa(n int) string { return strconv.Itoa(n) }
