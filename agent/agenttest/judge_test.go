package agenttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	in := Input("Hi")
	started := &agui.RunStarted{ThreadID: "t", RunID: "r", ProtocolVersion: new(agui.ProtocolVersion)}
	finished := &agui.RunFinished{ThreadID: "t", RunID: "r", Outcome: agui.Success()}
	for want, events := range map[string][]agui.Event{
		"not a terminal one": {started},
		"V":                  {started, finished, finished},
		"not open":           {started, &agui.TextMessageContent{MessageID: "m", Delta: "x"}, finished},
	} {
		if found := strings.Join(judge(in, events), "\n"); !strings.Contains(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
	if found := judge(in, []agui.Event{started, finished}); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	if found := judge(in, nil); len(found) == 0 {
		t.Error("nothing was found of no stream")
	}
}

// Entries are counted wherever the client's writes are cut, and nothing goes behind the last one.
func TestWireCountsEntries(t *testing.T) {
	t.Parallel()
	entry := "HPUB holdfast.log.a.b _INBOX.1 4 9\r\nHD\r\nhello\r\n"
	other := "PUB $JS.API.X _INBOX.2 12\r\nHPUB x.log. \n\r\n"
	stream := "CONNECT {}\r\nPING\r\n" + entry + other + entry + other
	for cut := range len(stream) {
		w := &wire{link: &link{count: &counter{last: 2}}}
		passed, dies := w.scan([]byte(stream[:cut]))
		if !dies {
			passed, dies = w.scan([]byte(stream[cut:]))
			passed += cut
		}
		if want := len(stream) - len(other); !dies || passed != want {
			t.Fatalf("cut at %d: dies %t behind %d, want %d", cut, dies, passed, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	got := differences(strings.Fields("a b c e"), strings.Fields("a c d e f"))
	if want := "\t- b\n\t+ d\n\t+ f\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := differences([]string{"a"}, []string{"a"}); got != "" {
		t.Errorf("got %q", got)
	}
	if got := fmt.Sprint(crash{entry: 1}, crash{before: 2}, crash{behind: 3}); got != "behind entry 1 before attempt 2 behind attempt 3" {
		t.Error(got)
	}
}
