package tool

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

// ProgressInterval is the least time between two progress events of a call. More often than that no eye can follow.
const ProgressInterval = 100 * time.Millisecond

// maxProgressMessage bounds the message of a progress in bytes: it is a line in a display.
const maxProgressMessage = 1 << 10

// progressContent is the content of an activity of type [ActivityProgress].
type progressContent struct {
	ToolCallID agui.ToolCallID `json:"toolCallId"`
	Percent    float64         `json:"percent"`
	Message    string          `json:"message,omitempty"`
}

// limiter holds back progress that comes too fast. The latest wins, and is never lost.
type limiter struct {
	last   time.Time        // when progress was reported last
	held   *progressContent // what was not reported yet
	timer  *time.Timer      // that will report it
	failed error            // of the timer's report
}

// Progress tells how far the tool has come, in percent from 0 to 100; what is
// outside is moved to the nearer end. Of progress that comes faster than
// [ProgressInterval] the latest is shown and the rest is not; the last one is
// always shown, at the latest when the tool's function returns. Progress that was
// held back is reported later, so that an error may belong to an earlier one.
func (c *Call) Progress(ctx context.Context, percent float64, message string) error {
	if c == nil {
		return nil
	}
	if !(percent > 0) { // not a number is no progress
		percent = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.progress
	l.held = &progressContent{ToolCallID: c.info.ID, Percent: min(percent, 100), Message: cut(valid(message), maxProgressMessage, "…")}
	switch wait := ProgressInterval - time.Since(l.last); {
	case c.over:
		return ErrCallOver
	case l.last.IsZero() || wait <= 0:
		return c.flushProgress(ctx)
	case l.timer == nil:
		// The context of one report may end before the next is due.
		ctx := c.lifetime(ctx)
		l.timer = time.AfterFunc(wait, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if l.held != nil && !c.over {
				l.failed = c.flushProgress(ctx)
			}
		})
	}
	err := l.failed
	l.failed = nil
	return err
}

// flushProgress reports the progress that was held back. c.mu is held.
func (c *Call) flushProgress(ctx context.Context) error {
	l := &c.progress
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.held == nil {
		return nil
	}
	if err := c.activity(ctx, agui.MessageID(c.info.ID)+"-progress", ActivityProgress, l.held); err != nil {
		return err // it stays, for the next or for the end of the call
	}
	l.held, l.last = nil, time.Now()
	return nil
}
