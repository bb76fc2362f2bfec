package differential

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/aguitest"
	"github.com/holdfast-dev/holdfast/agui/protobuf"
)

// laterVersion matches events with something that cannot be carried.
var laterVersion = regexp.MustCompile(`"LATER_VERSION"|"hologram"|"merge"|"ghost"`)

// TestProtobufAsTheProtocolsOwn writes and reads events with the protocol's own
// encoder: either side reads what the other has written, and both read the same.
func TestProtobufAsTheProtocolsOwn(t *testing.T) {
	requireClient(t)
	sound, err := os.ReadFile("../../agui/testdata/shapes/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var events []agui.Event
	for line := range strings.Lines(string(sound)) {
		e, err := agui.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	exact := len(events)
	for seed := range uint64(100) {
		g := aguitest.New(seed, aguitest.Options{Chunks: true, Shared: seed%2 > 0})
		for range 30 {
			if e := g.Event(); !laterVersion.Match(aguitest.Frame(e)) {
				events = append(events, e)
			}
		}
	}

	var requests bytes.Buffer
	var messages [][]byte
	for _, e := range events {
		message, err := protobuf.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, message)
		line, err := json.Marshal(map[string]any{"event": json.RawMessage(aguitest.Frame(e)), "message": hex.EncodeToString(message)})
		if err != nil {
			t.Fatal(err)
		}
		requests.Write(append(line, '\n'))
	}
	cmd := exec.Command("node", "proto.mjs")
	cmd.Stdin, cmd.Stderr = &requests, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(bytes.NewReader(out))
	for i, e := range events {
		var a struct {
			Encoded, Error string
			Own, Decoded   any
		}
		if err := answers.Decode(&a); err != nil {
			t.Fatal(err)
		}
		if a.Error != "" {
			t.Fatalf("%s: %s", aguitest.Frame(e), a.Error)
		}
		if !reflect.DeepEqual(a.Own, a.Decoded) {
			t.Errorf("%s is read as another event (-own bytes +agui's):\n%s", aguitest.Frame(e), cmp.Diff(a.Own, a.Decoded))
		}
		frame, err := hex.DecodeString(a.Encoded)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := protobuf.NewReader(bytes.NewReader(frame)).Next()
		if err != nil {
			t.Fatalf("%s, in a frame of the protocol's own encoder: %v", aguitest.Frame(e), err)
		}
		ours, err := protobuf.Decode(messages[i])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(aguitest.Frame(ours)), string(aguitest.Frame(theirs))); diff != "" {
			t.Errorf("%s (-agui's bytes +its own):\n%s", aguitest.Frame(e), diff)
		}
		if i < exact && !bytes.Equal(frame[4:], messages[i]) {
			t.Errorf("%s\n is % x\nnot % x", aguitest.Frame(e), frame[4:], messages[i])
		}
	}
	if err := answers.Decode(new(any)); err != io.EOF {
		t.Errorf("there are more answers: %v", err)
	}
}
