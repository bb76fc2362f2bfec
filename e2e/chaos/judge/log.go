package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// The names below are what other systems see of Holdfast's log. They are written down here once more, on purpose.
const (
	logStream     = "HOLDFAST"
	agentsStream  = "KV_HOLDFAST_AGENTS"
	largeStream   = "OBJ_HOLDFAST_LARGE"
	subjectPrefix = "holdfast.log.default."
)

// Log looks into JetStream by its own requests. Threads and runs that it is asked about have ids that are safe in subjects
// as they are.
type Log struct{ Conn *nats.Conn }

// Entry is one message of the log as it lies there.
type Entry struct {
	Sequence              uint64
	Subject, Header, Body string
}

// Thread reads all there is of a thread.
func (l Log) Thread(ctx context.Context, thread string) ([]Entry, error) {
	var all []Entry
	for next := uint64(1); ; {
		var answer struct {
			Message struct {
				Seq     uint64 `json:"seq"`
				Subject string `json:"subject"`
				Hdrs    []byte `json:"hdrs"`
				Data    []byte `json:"data"`
			} `json:"message"`
		}
		found, err := l.request(ctx, "STREAM.MSG.GET."+logStream, map[string]any{"seq": next, "next_by_subj": subjectPrefix + thread + ".>"}, &answer)
		if err != nil || !found {
			return all, err
		}
		m := answer.Message
		all = append(all, Entry{m.Seq, m.Subject, string(m.Hdrs), string(m.Data)})
		next = m.Seq + 1
	}
}

// SameEntries checks that nothing was added to a log since it was read, and nothing taken away.
func SameEntries(before, after []Entry) error {
	if slices.Equal(before, after) {
		return nil
	}
	return fmt.Errorf("the log has changed since the end of the run:\nbefore: %+v\nafter: %+v", before, after)
}

// stream is what JetStream says of a stream.
type stream struct {
	Config struct {
		Name string `json:"name"`
	} `json:"config"`
	State struct {
		Messages  uint64            `json:"messages"`
		Consumers int               `json:"consumer_count"`
		Subjects  map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

// Leftovers checks that there is nothing in JetStream but the log of the given threads, each with its runs, no large
// objects, and no consumers but those with which gateways watch the agents, at most watches of them.
func (l Log) Leftovers(ctx context.Context, runs map[string][]string, watches int) error {
	var list struct {
		Streams []stream `json:"streams"`
	}
	if _, err := l.request(ctx, "STREAM.LIST", map[string]any{}, &list); err != nil {
		return err
	}
	for _, s := range list.Streams {
		switch s.Config.Name {
		case logStream:
			if s.State.Consumers != 0 {
				return fmt.Errorf("the log has %d consumers, want none", s.State.Consumers)
			}
		case agentsStream:
			if s.State.Consumers > watches {
				return fmt.Errorf("the agents are watched by %d consumers, want at most %d", s.State.Consumers, watches)
			}
		case largeStream:
			if s.State.Messages != 0 {
				return fmt.Errorf("%d messages of large objects are left, and no run had any", s.State.Messages)
			}
		default:
			return fmt.Errorf("an unknown stream %s", s.Config.Name)
		}
	}
	var info stream
	found, err := l.request(ctx, "STREAM.INFO."+logStream, map[string]any{"subjects_filter": ">"}, &info)
	if err != nil || !found {
		return err
	}
	for subject := range info.State.Subjects {
		token := strings.Split(strings.TrimPrefix(subject, subjectPrefix), ".")
		if !strings.HasPrefix(subject, subjectPrefix) || len(token) != 3 || !slices.Contains(runs[token[0]], token[1]) {
			return fmt.Errorf("the subject %s is of no run that was asked for", subject)
		}
	}
	return nil
}

// request asks JetStream. It reports false for what is not there.
func (l Log) request(ctx context.Context, api string, request, answer any) (bool, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return false, err
	}
	m, err := l.Conn.RequestWithContext(ctx, "$JS.API."+api, data)
	if err != nil {
		return false, fmt.Errorf("%s: %w", api, err)
	}
	var failed struct {
		Error *struct {
			Code        int    `json:"code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil {
		return false, fmt.Errorf("%s: %w", api, err)
	}
	switch {
	case failed.Error != nil && failed.Error.Code == 404:
		return false, nil
	case failed.Error != nil:
		return false, fmt.Errorf("%s: %s", api, failed.Error.Description)
	}
	return true, json.Unmarshal(m.Data, answer)
}
