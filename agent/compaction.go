package agent

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// CompactionMethod is how room is made for a conversation that grows. It is recorded
// in histories.
type CompactionMethod string

// The methods.
const (
	// CompactNone makes no room: the provider refuses a conversation that is too
	// long, and the run ends with MODEL_CONTEXT_TOO_LONG.
	CompactNone CompactionMethod = ""
	// CompactResults drops the oldest results of tools; the calls stay. It costs
	// nothing, and the model can call again.
	CompactResults CompactionMethod = "drop_results"
	// CompactSummary has the model sum up what is oldest, and drops results where
	// that fails.
	CompactSummary CompactionMethod = "summary"
)

// MinCompactionTokens is the least threshold: below it there is no room for a
// summary and what it stands beside.
const MinCompactionTokens = 1000

// Compaction says when and how room is made for a conversation. It changes what the
// model is shown. The client's conversation stays as it is, and is told by the event
// CUSTOM "holdfast.compaction" what the model does not see any more.
//
// It holds for one run: the next one, whose input is the client's whole conversation,
// makes room again.
type Compaction struct {
	Method CompactionMethod `json:"method,omitempty"`
	// Tokens is the estimate from which on room is made, down to the half of it. It
	// should leave room for an answer in what the model takes. Required with a
	// method.
	Tokens int `json:"tokens,omitempty"`
}

func (c Compaction) validate() (found []error) {
	switch c.Method {
	case CompactNone:
		if c.Tokens != 0 {
			found = append(found, fmt.Errorf("compaction.tokens: %d without a method", c.Tokens))
		}
	case CompactResults, CompactSummary:
		if c.Tokens < MinCompactionTokens {
			found = append(found, fmt.Errorf("compaction.tokens: %d is below the least, %d", c.Tokens, MinCompactionTokens))
		}
	default:
		found = append(found, fmt.Errorf("compaction.method: there is no %q", c.Method))
	}
	return found
}

// checkOutput says what is wrong with the form of answers.
func checkOutput(o *model.Output) (found []error) {
	if o == nil {
		return nil
	}
	if err := o.Validate(); err != nil {
		found = append(found, fmt.Errorf("output.%w", err))
	}
	return found
}
