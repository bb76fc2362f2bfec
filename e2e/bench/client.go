package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// runWithin bounds one run, also on a machine that has much else to do.
const runWithin = 5 * time.Minute

// timing is what a client saw of one run, from the moment before its request.
type timing struct{ firstEvent, firstText, whole time.Duration }

// reading is a run's stream as a client reads it. Lines are looked at and not decoded: many readers share the machine
// with what is measured.
type reading struct {
	events, words int
	firstEvent    time.Time
	firstText     time.Time
	end           time.Time // of the terminal event; zero before
	stamps        bool      // collect ages
	ages          sample    // of words that are stamps: from handing over to here
	firstStamp    time.Time
}

var (
	linePrefix     = []byte("data: ")
	typeText       = []byte(`{"type":"TEXT_MESSAGE_CONTENT"`)
	typeFinished   = []byte(`{"type":"RUN_FINISHED"`)
	typeError      = []byte(`{"type":"RUN_ERROR"`)
	deltaPrefix    = []byte(`"delta":"`)
	errStreamEnded = errors.New("the stream ended before the run")
	errAgain       = errors.New("the client is to try again")
)

// lineBuffer is the longest part of a line that is looked at; the rest of a longer line is passed over.
const lineBuffer = 16 << 10

// events reads data lines until each returns false or the stream ends.
func events(body io.Reader, each func(event []byte) bool) error {
	lines := bufio.NewReaderSize(body, lineBuffer)
	for continued := false; ; {
		line, err := lines.ReadSlice('\n')
		more := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !more {
			if errors.Is(err, io.EOF) {
				return errStreamEnded
			}
			return err
		}
		if event, ok := bytes.CutPrefix(line, linePrefix); ok && !continued && !each(event) {
			return nil
		}
		continued = more
	}
}

// follow reads a run to its end.
func (r *reading) follow(body io.Reader) error {
	var failed error
	err := events(body, func(event []byte) bool {
		now := time.Now()
		if r.events++; r.events == 1 {
			r.firstEvent = now
		}
		switch {
		case bytes.HasPrefix(event, typeText):
			if r.words++; r.words == 1 {
				r.firstText = now
			}
			if r.stamps || r.words == 1 {
				r.age(now, event)
			}
		case bytes.HasPrefix(event, typeFinished):
			r.end = now
			return false
		case bytes.HasPrefix(event, typeError):
			failed = fmt.Errorf("the run failed: %s", event)
			return false
		}
		return true
	})
	if err == nil && failed == nil {
		_, err = io.Copy(io.Discard, body) // to the end, so that the connection is used again
	}
	return errors.Join(err, failed)
}

// age notes how old a word is that is a stamp; other words have none.
func (r *reading) age(now time.Time, event []byte) {
	made, ok := stampOf(event)
	if !ok {
		return
	}
	if r.words == 1 {
		r.firstStamp = made
	}
	if r.stamps {
		r.ages = append(r.ages, now.Sub(made))
	}
}

func stampOf(event []byte) (time.Time, bool) {
	_, rest, _ := bytes.Cut(event, deltaPrefix)
	digits, _, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return time.Time{}, false
	}
	nanos, err := strconv.ParseInt(string(digits), 10, 64)
	return time.Unix(0, nanos), err == nil
}

// post starts a run of an agent and returns its stream, and when the request was made.
func (b *bench) post(ctx context.Context, agent, id, text string) (io.ReadCloser, time.Time, error) {
	content, err := json.Marshal(text)
	if err != nil {
		return nil, time.Time{}, err
	}
	body := fmt.Sprintf(`{"threadId":%q,"runId":%q,"messages":[{"id":"u1","role":"user","content":%s}]}`, id, id, content)
	start := time.Now()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.gateway.said.URL+"/agents/"+agent, strings.NewReader(body))
		if err != nil {
			return nil, start, err
		}
		req.Header.Set("Content-Type", "application/json")
		stream, err := b.stream(req)
		if !errors.Is(err, errAgain) {
			return stream, start, err
		}
		// An overloaded machine. The client waits as it is told to, and its run takes so much longer.
		progress("  %v", err)
		if err := pause(ctx, time.Second); err != nil {
			return nil, start, err
		}
	}
}

// read attaches to a run.
func (b *bench) read(ctx context.Context, id string) (io.ReadCloser, error) {
	return b.readAt(ctx, b.gateway.said.URL+"/threads/"+id+"/runs/"+id+"/events")
}

func (b *bench) readAt(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return b.stream(req)
}

func (b *bench) stream(req *http.Request) (io.ReadCloser, error) {
	res, err := b.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer func() { _ = res.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // best effort: it is for an error
		err := fmt.Errorf("gateway: %s: %s", res.Status, text)
		if res.StatusCode == http.StatusServiceUnavailable {
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
		return nil, err
	}
	return res.Body, nil
}

// run makes one run and reads it to its end, which must hold so many words.
func (b *bench) run(ctx context.Context, agent, text string, words int) (timing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runWithin, fmt.Errorf("run not done within %s", runWithin))
	defer cancel()
	body, start, err := b.post(ctx, agent, b.next(agent), text)
	if err != nil {
		return timing{}, err
	}
	defer func() { _ = body.Close() }()
	var r reading
	if err := r.follow(body); err != nil {
		return timing{}, err
	}
	if r.words != words {
		return timing{}, fmt.Errorf("a run of %s delivered %d words, not %d", agent, r.words, words)
	}
	return timing{firstEvent: r.firstEvent.Sub(start), firstText: r.firstText.Sub(start), whole: r.end.Sub(start)}, nil
}

// referenceWords is what the model of the reference run says.
const referenceWords = 200

func (b *bench) referenceRun(ctx context.Context, agent string) (timing, error) {
	return b.run(ctx, agent, "go", referenceWords)
}

// oneWord is the smallest run: one model turn of one word, and the end.
func (b *bench) oneWord(ctx context.Context) (timing, error) {
	return b.run(ctx, agentSource, orderText(order{Words: 1}), 1)
}

func orderText(o order) string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // an order has nothing that can't be encoded
	}
	return string(text)
}
