package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
)

// asChild in the environment makes the test binary one of the processes that the tests start.
const asChild = "HOLDFAST_DEV_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(asChild) {
	case "":
		os.Exit(m.Run())
	case "dev": // The program itself.
		main()
	case "idle": // Lives until its standard input ends.
		fmt.Println("idling")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "deaf": // Lives until it is killed.
		fmt.Println("deaf")
		<-time.After(time.Hour)
	case "faulty": // Says why it cannot start, and ends.
		fmt.Println("level=ERROR the folder is not there")
		os.Exit(3)
	case "parent": // Starts a child that shares its standard output, and lives until it is killed.
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), asChild+"="+os.Args[1])
		child.Stdout = os.Stdout
		if _, err := child.StdinPipe(); err != nil {
			panic(err)
		}
		if err := newSpawner().Start(child); err != nil {
			panic(err)
		}
		<-time.After(time.Hour)
	}
}

func TestTakenPortsAreNamedWithTheirFlags(t *testing.T) {
	t.Parallel()
	free := reserve(t)
	opts := options{httpPort: free(), temporalPort: free(), uiPort: free(), natsPort: free()}
	if err := checkPorts(opts); err != nil {
		t.Fatalf("free ports: %v", err)
	}
	taken, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(opts.natsPort)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	err = checkPorts(opts)
	if err == nil {
		t.Fatal("a taken port was not noticed")
	}
	for _, want := range []string{strconv.Itoa(opts.natsPort), "needed for NATS", "-nats-port"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error = %q, want it to hold %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "gateway") {
		t.Errorf("error = %q speaks of a port that is free", err)
	}
}

func TestOneCommandAFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "kept")
	unlock, err := lockFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockFolder(folder)
	if err == nil {
		t.Fatal("two commands hold one folder")
	}
	for _, want := range []string{folder, strconv.Itoa(os.Getpid()), "HOLDFAST_DATA"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error = %q, want it to hold %q", err, want)
		}
	}
	unlock()
	unlock, err = lockFolder(folder)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	unlock()
}

func TestDevserverIsBuiltAgainWhenItsSourcesChange(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) string {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		key, err := devserverKey(folder)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	write("go.mod", "module m\n")
	key := write("main.go", "package main\n")
	if again := write("main.go", "package main\n"); again != key {
		t.Errorf("key changed with nothing: %s, %s", key, again)
	}
	if again := write("main_test.go", "package main\n"); again != key {
		t.Error("key changed with a test")
	}
	if again := write("notes.txt", "hello"); again != key {
		t.Error("key changed with what is no source")
	}
	for name, content := range map[string]string{"main.go": "package main // x\n", "go.mod": "module m2\n", "more.go": "package main\n"} {
		if again := write(name, content); again == key {
			t.Errorf("key did not change with %s", name)
		} else {
			key = again
		}
	}
}

func TestCurlLineIsOneShellCommandWithACompleteInput(t *testing.T) {
	t.Setenv("HOLDFAST_TOKENS_FILE", "")
	opts := options{httpPort: 8080}
	line := curlLine(opts, "researcher", question, newInput())
	// The shell says which words it sees; printf ends each with a line feed.
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "set -- "+line+`; printf '%s\n' "$@"`).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	words := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	want := []string{"curl", "-N", "http://127.0.0.1:8080/agents/researcher", "-H", "Content-Type: application/json", "-d"}
	if len(words) != len(want)+1 || !slices.Equal(words[:len(want)], want) {
		t.Fatalf("words = %q, want %q and a body", words, want)
	}
	input, err := agui.DecodeInput([]byte(words[len(want)]))
	if err != nil {
		t.Fatalf("body %s: %v", words[len(want)], err)
	}
	if len(input.Messages) != 1 || input.Messages[0].Content.Text() != question {
		t.Errorf("messages = %+v", input.Messages)
	}
	if line == curlLine(opts, "researcher", question, newInput()) {
		t.Error("two lines have the same ids")
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", "it's", `a "b" $c \d`, "'"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shellQuote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("the shell reads %s as %q, %v; want %q", shellQuote(s), out, err, s)
		}
	}
}

func TestChildrenUseTheServersStartedHere(t *testing.T) {
	t.Parallel()
	opts := options{folder: "/kept", temporalPort: 1, natsPort: 2, httpPort: 3}
	env := map[string]string{}
	for _, entry := range childEnvironment([]string{
		"PATH=/bin", "OPENAI_API_KEY=k", "HOLDFAST_FILES=/mine", "HOLDFAST_ADDRESS=0.0.0.0:80", "HOLDFAST_STREAM_REPLICAS=3", "HOLDFAST_METRICS_ADDRESS=:9090",
		"TEMPORAL_ADDRESS=cloud:7233", "TEMPORAL_API_KEY=secret", "TEMPORAL_TLS=true", "NATS_CREDS=/creds",
	}, opts, "/checkout") {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value // As exec does it: the last one counts.
	}
	for name, want := range map[string]string{
		"PATH": "/bin", "OPENAI_API_KEY": "k", "HOLDFAST_FILES": "/mine", "HOLDFAST_ADDRESS": "127.0.0.1:3",
		"TEMPORAL_ADDRESS": "127.0.0.1:1", "NATS_URL": "nats://127.0.0.1:2", "HOLDFAST_EXIT_WITH_STDIN": "1",
		"HOLDFAST_ORDERS_FILE": filepath.FromSlash("/kept/data/orders/orders.db"),
	} {
		if env[name] != want {
			t.Errorf("%s = %q, want %q", name, env[name], want)
		}
	}
	for _, name := range []string{"TEMPORAL_API_KEY", "TEMPORAL_TLS", "NATS_CREDS", "HOLDFAST_STREAM_REPLICAS", "HOLDFAST_METRICS_ADDRESS"} {
		if value, there := env[name]; there {
			t.Errorf("%s = %q was passed on", name, value)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Setenv("HOLDFAST_DATA", "from-environment")
	opts, err := parseOptions([]string{"-http-port", "9090"})
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(opts.folder) || filepath.Base(opts.folder) != "from-environment" || opts.httpPort != 9090 || opts.natsPort != 4222 {
		t.Errorf("options = %+v", opts)
	}
	for args, want := range map[string]string{
		"-http-port 0":     "want 1 to 65535",
		"-ui-port 7233":    "are both 7233",
		"-data x leftover": `unexpected argument "leftover"`,
	} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that holds %q", args, err, want)
		}
	}
}

func TestGoProgressTellsProgressFromErrors(t *testing.T) {
	t.Parallel()
	p := &goProgress{what: "building", total: 9, began: time.Now()}
	for _, chunk := range []string{
		"go: downloading example.com/a v1.0.0\ngo: down", "loading example.com/b v1.0.0\n",
		"internal/abi\nexample.com/a\n# example.com/b\n", "b.go:1:2: undefined: x\n", "example.com/c\n",
	} {
		if _, err := p.Write([]byte(chunk)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := p.String(), "building: 0s, 2 modules downloaded, 3 of 9 packages compiled"; got != want {
		t.Errorf("progress = %q, want %q", got, want)
	}
	if got, want := p.rest(), "# example.com/b\nb.go:1:2: undefined: x\n"; got != want {
		t.Errorf("rest = %q, want %q", got, want)
	}
}

func TestFailedBuildShowsWhatTheCompilerSaid(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() { missing() }\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err := runGo(t.Context(), newSpawner(), "building m", 0, "-C", folder, "build", "-v", "-o", os.DevNull, ".")
	if err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Errorf("error = %v, want it to hold what the compiler said", err)
	}
}

func TestSeriousLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`time=2026-01-01T00:00:00Z level=WARN msg="x"`:              true,
		`time=2026-01-01T00:00:00Z level=INFO msg="level is fine"`:  false,
		`{"time":"2026-01-01T00:00:00Z","level":"ERROR","msg":"x"}`: true,
		`{"level":"info","ts":"2026-01-01T00:00:00Z","msg":"x"}`:    false,
		"2026-01-01T00:00:00.000Z\twarn\tnetwork dial error\t{}":    true,
		"2026-01-01T00:00:00.000Z\tinfo\tstarted\t{}":               false,
		"[7] 2026/01/01 00:00:00.000000 [WRN] Filestore":            true,
		"[7] 2026/01/01 00:00:00.000000 [INF] Server is ready":      false,
		"panic: runtime error: invalid memory address":              true,
	} {
		if got := serious.MatchString(line); got != want {
			t.Errorf("serious(%q) = %t, want %t", line, got, want)
		}
	}
}

// TestProcessIsKeptRunning follows one that is killed and comes back, and then stops.
func TestProcessIsKeptRunning(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	ready := make(chan time.Time, 8)
	p := keepRunning(childProgram("idle", func(_ context.Context, started time.Time) error {
		ready <- started
		return nil
	}), newSpawner(), newTestLog(t), failed)
	if err := p.awaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := <-ready
	p.mu.Lock()
	err := p.cmd.Process.Kill()
	p.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if second := <-ready; !second.After(first) {
		t.Errorf("ready again with a start at %s, after one at %s", second, first)
	}
	p.stop()
	select {
	case err := <-failed:
		t.Errorf("given up: %v", err)
	default:
	}
}

func TestProcessThatDoesNotStartIsGivenUp(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	log := newTestLog(t)
	p := keepRunning(childProgram("faulty", func(context.Context, time.Time) error { return errors.New("no answer") }), newSpawner(), log, failed)
	if err := p.awaitReady(t.Context()); err == nil {
		t.Error("a process that ended was ready")
	}
	if err := <-failed; !strings.Contains(err.Error(), "faulty does not start (exit status 3)") {
		t.Errorf("error = %v", err)
	}
	content, err := os.ReadFile(log.path)
	if err != nil || !strings.Contains(string(content), "the folder is not there") {
		t.Errorf("log = %q, %v; want what the process said", content, err)
	}
}

func TestProcessThatDoesNotStopIsKilled(t *testing.T) {
	t.Parallel()
	program := childProgram("deaf", func(context.Context, time.Time) error { return nil })
	program.stopTimeout = time.Millisecond
	p := keepRunning(program, newSpawner(), newTestLog(t), make(chan error, 1))
	if err := p.awaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.stop() // Returns only when it has ended.
}

// No child outlives a killed parent: the pipe that both write to ends only when both are gone.
func TestNoOrphanSurvives(t *testing.T) {
	t.Parallel()
	kinds := []string{"idle"}
	if runtime.GOOS == "linux" {
		kinds = append(kinds, "deaf") // The kernel kills also those that do not listen to their standard input.
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			parent := exec.CommandContext(t.Context(), os.Args[0], kind)
			parent.Env = append(os.Environ(), asChild+"=parent")
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			started := make([]byte, 4)
			if _, err := io.ReadFull(out, started); err != nil {
				t.Fatalf("the child said nothing: %v", err)
			}
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, out); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait()
		})
	}
}

func TestNATSKeepsItsStoreAndEndsWithItsStandardInput(t *testing.T) {
	t.Parallel()
	number := strconv.Itoa(reserve(t)())
	store := t.TempDir()
	url := "nats://" + net.JoinHostPort(host, number)
	start := func() (stop func()) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], natsCommand, "-port", number, "-store", store)
		cmd.Env = append(os.Environ(), asChild+"=dev")
		var said bytes.Buffer
		cmd.Stderr = &said
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready := natsProbe(url)
		for tick := time.NewTicker(probeInterval); ready(t.Context(), time.Now()) != nil; {
			select {
			case <-tick.C:
			case <-t.Context().Done():
				t.Fatal("not ready")
			}
		}
		return func() {
			_ = stdin.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("NATS ended with %v; it said:\n%s", err, said.String())
			}
		}
	}
	on := func(do func(js jetstream.JetStream) error) {
		t.Helper()
		nc, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err == nil {
			err = do(js)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	stop := start()
	on(func(js jetstream.JetStream) error {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}}); err != nil {
			return err
		}
		_, err := js.Publish(t.Context(), "kept", []byte("hello"))
		return err
	})
	stop()
	stop = start()
	on(func(js jetstream.JetStream) error {
		stream, err := js.Stream(t.Context(), "KEPT")
		if err != nil {
			return err
		}
		message, err := stream.GetLastMsgForSubject(t.Context(), "kept")
		if err == nil && string(message.Data) != "hello" {
			err = fmt.Errorf("kept %q", message.Data)
		}
		return err
	})
	stop()
}

func TestTemporalsVersionIsReadFromTheProgram(t *testing.T) {
	t.Parallel()
	if _, err := temporalVersion(os.Args[0]); err == nil || !strings.Contains(err.Error(), "not built with Temporal's server") {
		t.Errorf("of a program without the server: %v", err)
	}
	mod, err := os.ReadFile(filepath.Join("..", "..", "devserver", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^\tgo\.temporal\.io/server v\d`).Match(mod) {
		t.Error("devserver does not require go.temporal.io/server")
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	if _, err := parseOptions([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error = %v, want help", err)
	}
}

// childProgram is this test binary in one of the parts of TestMain.
func childProgram(part string, ready probe) program {
	return program{
		name: part, path: os.Args[0], env: append(os.Environ(), asChild+"="+part), ready: ready, stopTimeout: time.Minute,
	}
}

func newTestLog(t *testing.T) *processLog {
	t.Helper()
	log, err := openLog(t.TempDir(), "test", false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.close() })
	return log
}

// reserve hands out ports that were free a moment ago, no port twice.
func reserve(t *testing.T) func() int {
	t.Helper()
	var mu sync.Mutex
	given := map[int]bool{}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		for {
			l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				t.Fatal(err)
			}
			number := l.Addr().(*net.TCPAddr).Port
			_ = l.Close()
			if !given[number] {
				given[number] = true
				return number
			}
		}
	}
}
