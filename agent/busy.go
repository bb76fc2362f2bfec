package agent

import "fmt"

// Busy says what becomes of a message that comes while a run of its thread is in
// progress. There are never two runs of a thread at once, and none begins while the
// thread waits for a person, whatever it says.
type Busy string

// What becomes of the message.
const (
	// BusyReject refuses it. The client is told so, and may send it again.
	BusyReject Busy = ""
	// BusyQueue has it wait for the end of the run, for as long as its client does. Of
	// several that wait, any may be next; beyond sixteen at a gateway they are refused.
	BusyQueue Busy = "queue"
	// BusyCancel cancels the run, and begins with the message when that has ended.
	BusyCancel Busy = "cancel"
)

func (b Busy) validate() (found []error) {
	switch b {
	case BusyReject, BusyQueue, BusyCancel:
	default:
		found = append(found, fmt.Errorf("busy: want \"\", %q or %q", BusyQueue, BusyCancel))
	}
	return found
}
