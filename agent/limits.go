package agent

import (
	"fmt"
	"math"
	"time"
)

// What a run may use when its agent sets no limit.
const (
	// DefaultTurns lets an agent take thirty looks at its tools, several times what
	// a good answer takes, and ends one that goes in circles.
	DefaultTurns = 32
	// DefaultDuration is far above what a conversation takes: it is there to end
	// what nobody waits for any more.
	DefaultDuration = time.Hour
	// DefaultParallelTools keeps one model turn from taking all of a worker.
	DefaultParallelTools = 8
	// DefaultParallelSubagents is below that of tools, because each of them may use its
	// own.
	DefaultParallelSubagents = 4
)

// How far limits may be set. Each is where something beneath gives way.
const (
	// MaxTurns bounds the history of a run: an execution that is never
	// continued as new must stay below 50,000 events, at 10 or so a turn.
	MaxTurns = 1000
	// MaxDuration is above any useful run, and below the age at which logs of
	// open runs are deleted.
	MaxDuration = 7 * 24 * time.Hour
	// MaxParallelTools stays below the engine's 2,000 pending activities with
	// room for subagents.
	MaxParallelTools = 128
	// MaxParallelSubagents is where the children of a workflow begin to slow it down.
	MaxParallelSubagents = 64
	// MaxAttempts at one turn take hours.
	MaxAttempts = 1000
	// MaxCost is what an exact sum of billionths can hold, many times over.
	MaxCost = 1e6
	// MaxOutputTokens is above what any model can put out in one turn.
	MaxOutputTokens = 1 << 20
)

// Limits bound a run. A zero field has its default. A run that meets its limit of
// turns, time, tokens or cost ends with an error that says which one. Clients can read
// them in the agent's capabilities, under custom.holdfast.limits.
type Limits struct {
	// Turns is how often the model may be asked; [DefaultTurns] if zero.
	Turns int `json:"turns"`
	// Duration bounds the run from its start to its end in wall time, in JSON in
	// nanoseconds; [DefaultDuration] if zero.
	Duration time.Duration `json:"duration"`
	// ParallelTools is how many calls of one turn run at the same time;
	// [DefaultParallelTools] if zero. The others wait.
	ParallelTools int `json:"parallelTools"`
	// MaxOutputTokens bounds one turn of the model. Zero leaves it to the model.
	MaxOutputTokens int `json:"maxOutputTokens"`

	// InputTokens, OutputTokens and TotalTokens bound what all model calls of a run
	// use together, in the accounting of the protocol; zero is no limit. A turn whose
	// conversation alone would go beyond, by estimate, is not begun, and a turn's
	// answer is bounded by what is left. The last answer may still go beyond by a
	// little.
	InputTokens  int64 `json:"inputTokens,omitempty"`
	OutputTokens int64 `json:"outputTokens,omitempty"`
	TotalTokens  int64 `json:"totalTokens,omitempty"`
	// Cost bounds what a run costs, in the currency of the models' prices; zero is no
	// limit. No turn is begun when it is reached. All models of the agent must have a
	// price (model.Priced), or a worker does not start with it.
	Cost float64 `json:"cost,omitempty"`
	// Attempts is how often one turn is asked for when the model fails, without
	// those attempts that are only told to come back later; 10 if zero.
	Attempts int `json:"attempts,omitempty"`
	// ParallelSubagents is how many other agents work for the run at the same time;
	// [DefaultParallelSubagents] if zero. The others wait.
	ParallelSubagents int `json:"parallelSubagents,omitempty"`
}

// WithDefaults returns l with a value in every field that has a default.
func (l Limits) WithDefaults() Limits {
	if l.Turns == 0 {
		l.Turns = DefaultTurns
	}
	if l.Duration == 0 {
		l.Duration = DefaultDuration
	}
	if l.ParallelTools == 0 {
		l.ParallelTools = DefaultParallelTools
	}
	return l
}

func (l Limits) validate() (found []error) {
	within := func(field string, value, limit int) {
		if value < 0 || value > limit {
			found = append(found, fmt.Errorf("%s: %d is not between 0 and %d", field, value, limit))
		}
	}
	within("limits.turns", l.Turns, MaxTurns)
	if l.Duration < 0 || l.Duration > MaxDuration {
		found = append(found, fmt.Errorf("limits.duration: %s is not between 0 and %s", l.Duration, MaxDuration))
	}
	within("limits.parallelTools", l.ParallelTools, MaxParallelTools)
	within("limits.maxOutputTokens", l.MaxOutputTokens, MaxOutputTokens)
	within("limits.attempts", l.Attempts, MaxAttempts)
	within("limits.parallelSubagents", l.ParallelSubagents, MaxParallelSubagents)
	positive := func(field string, value int64) {
		if value < 0 {
			found = append(found, fmt.Errorf("%s: %d is negative", field, value))
		}
	}
	positive("limits.inputTokens", l.InputTokens)
	positive("limits.outputTokens", l.OutputTokens)
	positive("limits.totalTokens", l.TotalTokens)
	if math.IsNaN(l.Cost) || l.Cost < 0 || l.Cost > MaxCost {
		found = append(found, fmt.Errorf("limits.cost: %v is not between 0 and %v", l.Cost, MaxCost))
	}
	return found
}
