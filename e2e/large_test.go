package e2e

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// A request just below the limit of a body runs like any other.
func TestLargestInput(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	question := s.script(strings.Repeat("x", 1_040_000), modeltest.Text("That ", "is long."))
	input := ask(question)
	rec := s.run(t, agentDesk, input)
	f := s.prove(t, input, rec)
	if f.Outcome != "success" || !strings.HasSuffix(f.transcript(), "assistant: That is long.\n") {
		t.Errorf("outcome %s", f.Outcome)
	}
}
