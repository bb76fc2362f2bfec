package eventbus

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/eventbus/subject"
)

// MainLane is the lane of the outbox and of everything that runs alone. Most runs have no other.
const MainLane = "0"

// RunKey names one run. The ids are as the client sent them; subjects are made of their tokens.
type RunKey struct {
	Tenant, Thread, Run string
}

func (k RunKey) tokens() string {
	return subject.Token(k.Tenant) + "." + subject.Token(k.Thread) + "." + subject.Token(k.Run)
}

// String is for messages; it holds tokens only and is safe to log.
func (k RunKey) String() string { return k.tokens() }

// lane is the subject of a lane.
func (b *Bus) lane(key RunKey, name string) string { return b.prefix + key.tokens() + "." + name }

// Generation orders the writers of a lane over the life of a run, through retries, worker deaths and continue-as-new.
// A writer never appends behind an entry of a higher generation.
type Generation struct {
	Start   int64 // start time of the workflow run that scheduled the writer, Unix nanoseconds
	Number  int64 // the writer's number within that workflow run
	Attempt int64 // attempt of the activity
}

// Compare returns -1, 0 or 1 as g is lower than, equal to or higher than o.
func (g Generation) Compare(o Generation) int {
	switch {
	case g == o:
		return 0
	case g.Start != o.Start:
		return sign(g.Start < o.Start)
	case g.Number != o.Number:
		return sign(g.Number < o.Number)
	}
	return sign(g.Attempt < o.Attempt)
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// String is the wire form: three decimal numbers joined by dots.
func (g Generation) String() string {
	return strconv.FormatInt(g.Start, 10) + "." + strconv.FormatInt(g.Number, 10) + "." + strconv.FormatInt(g.Attempt, 10)
}

// ParseGeneration reads what String wrote.
func ParseGeneration(s string) (Generation, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return Generation{}, fmt.Errorf("generation %q: want three numbers", s)
	}
	var n [3]int64
	for i, p := range parts {
		v, err := strconv.ParseInt(p, 10, 64)
		if err != nil {
			return Generation{}, fmt.Errorf("generation %q: %w", s, err)
		}
		n[i] = v
	}
	return Generation{Start: n[0], Number: n[1], Attempt: n[2]}, nil
}

// EventID is the SSE id of one event: it names the log it was read from, the entry and the place in the entry. See
// [Entry.ID].
type EventID struct {
	// Epoch names the stream's creation; another epoch is another log. Behind a dot it may have the mark of the entry: a
	// log that was set back to an earlier state has the same epoch, and gives the sequences of lost entries to others.
	Epoch    string
	Sequence uint64 // of the entry in the stream, from 1
	Index    int    // of the event in the entry, from 0
}

// ErrBadEventID is returned for a text that no EventID prints as.
var ErrBadEventID = errors.New("not an event id")

// String is the wire form, <epoch>-<sequence>-<index>.
func (id EventID) String() string {
	return id.Epoch + "-" + strconv.FormatUint(id.Sequence, 10) + "-" + strconv.Itoa(id.Index)
}

// ID is the id of one of the entry's events, in the log of the epoch.
func (e *Entry) ID(epoch string, index int) EventID {
	mark := markOf(e.checkpoint.Execution+"/"+e.checkpoint.Writer, e.checkpoint.Generation.String())
	return EventID{Epoch: epoch + "." + mark, Sequence: e.Sequence, Index: index}
}

// markOf tells entries apart that may have had the same sequence, by the headers that say who wrote them. No two attempts
// have both the same, and one that finds its entries lost gives way to the next.
func markOf(writer, generation string) string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, writer+" "+generation) // a hash takes everything
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}

// maxEventID is longer than any id that String prints; a client's text beyond it isn't worth parsing.
const maxEventID = 80

// ParseEventID reads what String wrote. The text comes from clients: anything else is ErrBadEventID.
func ParseEventID(s string) (EventID, error) {
	if len(s) > maxEventID {
		return EventID{}, ErrBadEventID
	}
	parts := strings.Split(s, "-")
	if len(parts) != 3 || parts[0] == "" {
		return EventID{}, ErrBadEventID
	}
	seq, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil || seq == 0 {
		return EventID{}, ErrBadEventID
	}
	index, err := strconv.ParseUint(parts[2], 10, 31)
	if err != nil {
		return EventID{}, ErrBadEventID
	}
	id := EventID{Epoch: parts[0], Sequence: seq, Index: int(index)}
	if id.String() != s { // leading zeros
		return EventID{}, ErrBadEventID
	}
	return id, nil
}
