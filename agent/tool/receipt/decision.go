package receipt

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
)

// DecisionLeaf is the hash of a person's decision, in JSON as it is in the metadata of RUN_STARTED, of the run that goes on
// with it. The leaves of decisions come before those of the run's results.
func DecisionLeaf(run agui.RunID, decision json.RawMessage) (Hash, error) {
	doc, ok := canonical(append([]byte{leafPrefix}, `{"decision":`...), decision)
	if !ok {
		return Hash{}, fmt.Errorf("decision of run %s: no canonical form", run)
	}
	doc = appendString(append(doc, `,"run":`...), string(run))
	return sha256.Sum256(append(doc, '}')), nil
}

// decided takes the decisions that a run goes on with.
func (a *Audit) decided(m agui.Metadata) error {
	var meta struct {
		Decisions []json.RawMessage `json:"decisions"`
	}
	if err := read(m, &meta); err != nil {
		return fmt.Errorf("decisions: %w: %w", ErrChanged, err)
	}
	for i, raw := range meta.Decisions {
		leaf, err := DecisionLeaf(a.run, raw)
		if err != nil {
			return fmt.Errorf("decision %d: %w: %w", i+1, ErrChanged, err)
		}
		a.leaves = append(a.leaves, owned{Hash: leaf, of: fmt.Sprintf("decision %d", i+1)})
		var d struct {
			CallID  agui.ToolCallID `json:"callId"`
			Tool    string          `json:"tool"`
			Edited  json.RawMessage `json:"edited"`
			Carried string          `json:"carried"`
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			return fmt.Errorf("decision %d: %w: %w", i+1, ErrChanged, err)
		}
		carried := cmp.Or(d.Carried, string(d.Edited)) // and not what the model had sent
		if d.CallID != "" && carried != "" {
			a.begin(d.CallID, d.Tool).arguments.WriteString(carried)
		}
	}
	return nil
}
