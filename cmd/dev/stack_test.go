package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

// upTimeout bounds a start in which worker and gateway may have to be built from nothing, on a busy machine.
const upTimeout = 10 * time.Minute

// TestEverythingTogether is a developer's morning: start, paste the line, start a second one by mistake, lose all of it to
// a kill -9, start again and find the run where it was and the refund that waits, agree to that, and press Ctrl-C.
func TestEverythingTogether(t *testing.T) {
	t.Parallel()
	if os.Getenv("HOLDFAST_DEVSERVER") == "" {
		t.Fatal("HOLDFAST_DEVSERVER is not set, and this test needs a Temporal server: run `make test`, or once\n" +
			"\texport HOLDFAST_DEVSERVER=$(go run ./cmd/dev build-devserver)")
	}
	free := reserve(t)
	httpPort, temporal, ui, natsPort := free(), free(), free(), free()
	folder := t.TempDir()
	args := []string{
		"-data", folder, "-http-port", strconv.Itoa(httpPort), "-temporal-port", strconv.Itoa(temporal),
		"-ui-port", strconv.Itoa(ui), "-nats-port", strconv.Itoa(natsPort),
	}

	first := startDev(t, args)
	banner := first.awaitUp(t)
	for _, want := range []string{"researcher", "orders", folder, strconv.Itoa(ui)} {
		if !strings.Contains(banner, want) {
			t.Errorf("the banner does not name %q:\n%s", want, banner)
		}
	}
	url, body := curlRequest(t, banner, "-N", "/agents/researcher")
	input, err := agui.DecodeInput(body)
	if err != nil {
		t.Fatal(err)
	}
	stream := readStream(t, http.MethodPost, url, body)
	for _, want := range []string{`"RUN_STARTED"`, `"TOOL_CALL_RESULT"`, `"TEXT_MESSAGE_CONTENT"`, `"RUN_FINISHED"`, `"success"`} {
		if !bytes.Contains(stream, []byte(want)) {
			t.Errorf("the run's stream has no %s:\n%s", want, stream)
		}
	}

	url, body = curlRequest(t, banner, "-N", "/agents/orders")
	if asks := readStream(t, http.MethodPost, url, body); !bytes.Contains(asks, []byte(`"interrupt"`)) {
		t.Errorf("the refund does not wait:\n%s", asks)
	}

	second := startDev(t, args)
	if code, said := second.wait(); code == 0 || !strings.Contains(said, "is in use by process "+strconv.Itoa(first.cmd.Process.Pid)) {
		t.Errorf("a second one on the same folder ended with %d and said:\n%s", code, said)
	}

	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.wait()
	third := startDev(t, args) // Refused if any of the first one's children still held a port.
	third.awaitUp(t)
	events := "http://127.0.0.1:" + strconv.Itoa(httpPort) + "/threads/" + string(input.ThreadID) + "/runs/" + string(input.RunID) + "/events"
	if again := readStream(t, http.MethodGet, events, nil); !bytes.Equal(withoutComments(again), withoutComments(stream)) {
		t.Errorf("after a kill the run reads\n%s\nand was\n%s", again, stream)
	}
	url, body = curlRequest(t, banner, "", "/threads/")
	var resumed struct{ Events string }
	if err := json.Unmarshal(readStream(t, http.MethodPost, url, body), &resumed); err != nil {
		t.Fatal(err)
	}
	made := readStream(t, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(httpPort)+resumed.Events, nil)
	for _, want := range []string{`"TOOL_CALL_RESULT"`, `ORD-1001-R1`, `"success"`} {
		if !bytes.Contains(made, []byte(want)) {
			t.Errorf("the refund that was agreed to has no %s:\n%s", want, made)
		}
	}

	if err := third.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, said := third.wait(); code != 0 || !strings.Contains(said, "stopped; data is kept in "+folder) {
		t.Errorf("after Ctrl-C it ended with %d and said:\n%s", code, said)
	}
	for _, p := range []int{httpPort, temporal, ui, natsPort} {
		if err := listenable(p); err != nil {
			t.Errorf("port %d after the end: %v", p, err)
		}
	}

	clean := startDev(t, []string{"clean", "-data", folder})
	if code, said := clean.wait(); code != 0 {
		t.Errorf("clean ended with %d and said:\n%s", code, said)
	}
	if _, err := os.Stat(filepath.Join(folder, "data")); !os.IsNotExist(err) {
		t.Errorf("data after clean: %v, want none", err)
	}
}

// devProcess is this program as a process.
type devProcess struct {
	cmd  *exec.Cmd
	done chan struct{}
	up   chan struct{} // Closed when the banner is complete.

	mu   sync.Mutex
	said bytes.Buffer
}

func startDev(t *testing.T, args []string) *devProcess {
	t.Helper()
	p := &devProcess{done: make(chan struct{}), up: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = slices.DeleteFunc(append(os.Environ(), asChild+"=dev"), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "OPENAI_") || name == "HOLDFAST_TOKENS_FILE" || name == "HOLDFAST_FILES"
	})
	reader, writer := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		_ = writer.Close()
	}()
	go func() {
		defer close(p.done)
		up := false
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			p.mu.Lock()
			p.said.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
			if !up && strings.HasPrefix(lines.Text(), "Ctrl-C ends everything") {
				up = true
				close(p.up)
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGKILL) // With all its children; most have ended long before.
		<-p.done
	})
	return p
}

func (p *devProcess) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *devProcess) awaitUp(t *testing.T) (banner string) {
	t.Helper()
	select {
	case <-p.up:
		return p.output()
	case <-p.done:
		t.Fatalf("it ended before it was up:\n%s", p.output())
	case <-time.After(upTimeout):
		t.Fatalf("not up within %s:\n%s", upTimeout, p.output())
	}
	return ""
}

func (p *devProcess) wait() (code int, said string) {
	<-p.done
	return p.cmd.ProcessState.ExitCode(), p.output()
}

// curlRequest takes the curl line of a banner that asks a path apart, as a shell and curl would.
func curlRequest(t *testing.T, banner, flag, path string) (url string, body []byte) {
	t.Helper()
	line := strings.TrimSuffix("curl "+flag, " ") + ` (http://[^/]+` + path + `\S*) -H 'Content-Type: application/json' -d '(.*)'$`
	match := regexp.MustCompile(`(?m)^  ` + line).FindStringSubmatch(banner)
	if match == nil {
		t.Fatalf("no curl line for %s in\n%s", path, banner)
	}
	return match[1], []byte(strings.ReplaceAll(match[2], `'\''`, "'"))
}

// readStream reads a stream to its end.
func readStream(t *testing.T, method, url string, body []byte) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	stream, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v\n%s", method, url, response.Status, err, stream)
	}
	return stream
}

// withoutComments is a stream without the comments that keep it alive.
func withoutComments(stream []byte) []byte {
	return regexp.MustCompile(`(?m)^:.*\n\n?`).ReplaceAll(stream, nil)
}
