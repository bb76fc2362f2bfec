package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/eventbus/subject"
)

// entry is one message of the event log as it lies in JetStream, read without the help of package eventbus.
type entry struct {
	Sequence   uint64
	Subject    string
	Generation string
	Body       string
}

func (e entry) String() string {
	return fmt.Sprintf("%d %s by %s: %.300s", e.Sequence, e.Subject, e.Generation, e.Body)
}

// threadLog reads all there is of a thread.
func (s *stack) threadLog(t *testing.T, thread string) []entry {
	t.Helper()
	js, err := jetstream.New(s.connectNATS(t))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "HOLDFAST")
	if err != nil {
		t.Fatal(err)
	}
	filter := "holdfast.log.default." + subject.Token(thread) + ".>"
	var all []entry
	for next := uint64(1); ; {
		m, err := stream.GetMsg(t.Context(), next, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{m.Sequence, m.Subject, m.Header.Get("Holdfast-Generation"), string(m.Data)})
		next = m.Sequence + 1
	}
}

// wantUntouched checks that nothing was added to a thread's log, and nothing taken away.
func (s *stack) wantUntouched(t *testing.T, thread string, before []entry) {
	t.Helper()
	if diff := cmp.Diff(before, s.threadLog(t, thread)); diff != "" {
		t.Errorf("the log has changed (-before +after):\n%s", diff)
	}
}
