package activities

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// DefaultAttempts bounds how often a model turn is asked for when the provider fails or a worker dies. With the pauses
	// between them that rides over about a minute and a half.
	DefaultAttempts = 10

	// limitedFor bounds how long a turn waits for a provider that limits its rate, however many attempts that takes. It is
	// above the minute for which most limits are, many times over, and below what anybody waits in front of a screen.
	limitedFor = 15 * time.Minute
)

// past is what earlier attempts of a turn have left for this one. It travels in heartbeats, for it must not depend on the
// worker: attempts that were only told to come back later are not counted, and a model that failed behind its first word
// is asked last.
type past struct {
	// Limited counts the attempts that failed for a rate limit.
	Limited int `json:"limited,omitempty"`
	// Failed is the place of the model that failed behind its first word.
	Failed int `json:"failed,omitempty"`
	// Spent is what the attempts have used.
	Spent

	attempts int
}

// tab is what one attempt uses, as far as providers say so.
type tab struct {
	usage  *agui.TokenUsage
	cost   *model.Money
	wasted model.Bill // by models that another one took the place of
}

// keep notes what goes by.
func (t *tab) keep(stream iter.Seq2[model.Delta, error]) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		for d, err := range stream {
			switch {
			case d.Usage != nil:
				t.usage = d.Usage
			case d.Cost != nil:
				t.cost = d.Cost
			case d.Wasted != nil:
				t.wasted.Join(*d.Wasted)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// charge adds what the attempt in hand has used in vain: all of it, if it failed.
func (p *past) charge(t tab, err error) {
	p.Wasted.Join(t.wasted)
	if err != nil {
		p.Wasted.Add(t.usage, t.cost)
	}
}

// owe puts what was used into the error that ends the activity, or may end it.
func (p *past) owe(err error) error {
	if err == nil || p.Wasted.IsZero() {
		return err
	}
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return errors.Join(err, temporal.NewCanceledError(p.Spent))
	}
	return temporal.NewApplicationErrorWithOptions(app.Message(), app.Type(), temporal.ApplicationErrorOptions{
		NonRetryable: app.NonRetryable(), NextRetryDelay: app.NextRetryDelay(), Details: []any{p.Spent},
	})
}

func pastOf(ctx context.Context, attempts int) *past {
	p := &past{attempts: attempts}
	if p.attempts <= 0 {
		p.attempts = DefaultAttempts
	}
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, p) // those of an older release say nothing
	}
	return p
}

// beat sends heartbeats that carry p until stop is called.
func (p *past) beat(ctx context.Context) (stop func()) { return beat(ctx, *p) }

// spent is the number of attempts that count, this one included.
func (p *past) spent(ctx context.Context) int { return attempt(ctx) - p.Limited }

// tooMany is the end of a turn whose attempts were used up by workers that died: those that failed have said so.
func (p *past) tooMany(ctx context.Context) error {
	if p.spent(ctx) <= p.attempts {
		return nil
	}
	return p.owe(temporal.NewApplicationErrorWithOptions(
		fmt.Sprintf("the model did not answer in time, or its workers died, in %d attempts", p.attempts),
		model.KindTimeout.Code(), temporal.ApplicationErrorOptions{NonRetryable: true}))
}

// failure is what the engine makes of the end of an attempt, and tells the next one what it has to know.
func (p *past) failure(ctx context.Context, err error, speaker int) error {
	failed := p.owe(failure(ctx, err))
	app, ok := errors.AsType[*temporal.ApplicationError](failed)
	if !ok || app.NonRetryable() {
		return failed
	}
	last := p.spent(ctx) >= p.attempts
	if e, ok := errors.AsType[*model.Error](err); ok && e.Kind == model.KindRateLimited {
		p.Limited++
		last = waited(ctx)+e.RetryAfter > limitedFor
	}
	if last {
		return p.owe(temporal.NewApplicationErrorWithOptions(app.Message(), app.Type(), temporal.ApplicationErrorOptions{NonRetryable: true}))
	}
	if speaker > 0 {
		p.Failed = speaker
	}
	activity.RecordHeartbeat(ctx, *p)
	return failed
}

// waited is for how long the turn has been waited for.
func waited(ctx context.Context) time.Duration {
	scheduled := activity.GetInfo(ctx).ScheduledTime
	if scheduled.IsZero() {
		return 0 // a test's engine does not say
	}
	return time.Since(scheduled)
}

// chain is a model with its fallbacks. All turns with the same ones share what is known of them.
func (s *Set) chain(name string, fallbacks []string) (*model.Chain, error) {
	names := append([]string{name}, fallbacks...)
	key := strings.Join(names, "\x00")
	if c, ok := s.chains.Load(key); ok {
		return c.(*model.Chain), nil
	}
	models := make([]model.Model, len(names))
	for i, n := range names {
		m, ok := s.models[n]
		if !ok {
			return nil, unconfigured("model", n)
		}
		models[i] = m
	}
	c, _ := s.chains.LoadOrStore(key, model.Failover(models[0], models[1:]...))
	return c.(*model.Chain), nil
}
