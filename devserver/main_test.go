package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// asServer in the environment makes the test binary the program under test: linking a second binary of this size
// would cost more than all the tests.
const asServer = "DEVSERVER_TEST_AS_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		main()
		return
	}
	_ = os.Setenv(asServer, "1") // For every child, testsuite.StartDevServer's too.
	os.Exit(m.Run())
}

var customer = temporal.NewSearchAttributeKeyKeyword("CustomerId")

// waiting is a workflow that runs an activity and then waits for a signal, whose value it returns.
func waiting(ctx workflow.Context) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var greeting string
	if err := workflow.ExecuteActivity(ctx, greet, "world").Get(ctx, &greeting); err != nil {
		return "", err
	}
	var word string
	workflow.GetSignalChannel(ctx, "word").Receive(ctx, &word)
	return greeting + word, nil
}

func greet(_ context.Context, name string) (string, error) { return "hello " + name, nil }

// work serves the workflow until the test ends, or stop is called.
func work(t *testing.T, c client.Client) (stop func()) {
	t.Helper()
	w := worker.New(c, "tests", worker.Options{})
	w.RegisterWorkflow(waiting)
	w.RegisterActivity(greet)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	return w.Stop
}

func TestServesTheSDKsTestsuite(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
		ExistingPath:     os.Args[0],
		ClientOptions:    &client.Options{Namespace: "tests"},
		SearchAttributes: temporal.NewSearchAttributes(customer.ValueSet("")),
		LogLevel:         "error",
		ExtraArgs:        []string{"--exit-with-parent"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := srv.Client()
	defer work(t, c)()

	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "one", TaskQueue: "tests",
		TypedSearchAttributes: temporal.NewSearchAttributes(customer.ValueSet("acme")),
	}, waiting)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SignalWorkflow(ctx, run.GetID(), "", "word", "!"); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := run.Get(ctx, &got); err != nil || got != "hello world!" {
		t.Errorf("result = %q, %v; want hello world!", got, err)
	}
	for _, name := range []string{"tests", "default"} {
		namespace, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
		if err != nil {
			t.Fatalf("namespace %s: %v", name, err)
		}
		if got := namespace.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration(); got != retention {
			t.Errorf("retention of namespace %s = %s, want %s", name, got, retention)
		}
	}
	if err := srv.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// A killed server goes on where it was, also when its folder was moved meanwhile, and its namespaces get the search
// attributes that they lack.
func TestKeepsDataOverAKill(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "100% of a folder?")
	first := startServer(t, "--db-filename", filepath.Join(dir, "t.db"))
	c := first.client(t)
	stop := work(t, c)
	if _, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "kept", TaskQueue: "tests"}, waiting); err != nil {
		t.Fatal(err)
	}
	stop()
	first.signal(t, syscall.SIGKILL)
	first.wait()

	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	second := startServer(t, "--db-filename", filepath.Join(moved, "t.db"), "--search-attribute", "CustomerId=Keyword")
	c = second.client(t)
	defer work(t, c)()
	if err := c.SignalWorkflow(ctx, "kept", "", "word", ", again"); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := c.GetWorkflow(ctx, "kept", "").Get(ctx, &got); err != nil || got != "hello world, again" {
		t.Errorf("result = %q, %v; want hello world, again", got, err)
	}
	// The server refreshes what it knows of its namespaces now and then.
	eventually(t, "a search attribute that was added later is known", func() bool {
		_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: "found", TaskQueue: "tests",
			TypedSearchAttributes: temporal.NewSearchAttributes(customer.ValueSet("acme")),
		}, waiting)
		return err == nil
	})
	eventually(t, "a workflow is found by a search attribute that was added later", func() bool {
		list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "CustomerId = 'acme'"})
		return err == nil && len(list.Executions) == 1
	})
	second.signal(t, syscall.SIGTERM)
	if code := second.wait(); code != 0 {
		t.Errorf("exit code after SIGTERM = %d, want 0; it said:\n%s", code, second.output())
	}
}

func TestRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "t.db")
	running := startServer(t, "--db-filename", file, "--search-attribute", "CustomerId=Keyword")

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"taken port":    {[]string{"--port", strconv.Itoa(running.port)}, "choose another with --port"},
		"taken UI port": {[]string{"--port", freePortOf(t), "--ui-port", strconv.Itoa(running.port)}, "choose another with --ui-port"},
		"file in use":   {[]string{"--headless", "--port", freePortOf(t), "--db-filename", file}, "in use by another server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), os.Args[0], test.args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.want) {
				t.Errorf("%q: %v, said %q, want an error that holds %q", test.args, err, out, test.want)
			}
		})
	}
}

func TestDiesWithItsParent(t *testing.T) {
	t.Parallel()
	t.Run("standard input ends", func(t *testing.T) {
		t.Parallel()
		srv := startServer(t, "--exit-with-stdin")
		if err := srv.stdin.Close(); err != nil {
			t.Fatal(err)
		}
		if code := srv.wait(); code != 0 {
			t.Errorf("exit code = %d, want 0; it said:\n%s", code, srv.output())
		}
	})
	t.Run("parent is killed", func(t *testing.T) {
		t.Parallel()
		port := freePortOf(t)
		shell := exec.CommandContext(t.Context(), "sh", "-c", `"$0" --headless --exit-with-parent --port "$1" & echo $!; wait`, os.Args[0], port)
		out, err := shell.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := shell.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		listens := func() bool {
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		}
		eventually(t, "the server listens", listens)
		if err := shell.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = shell.Wait()
		eventually(t, "the orphan is gone", func() bool { return !listens() })
	})
}

func TestParseFlags(t *testing.T) {
	t.Parallel()
	got, err := parseFlags(strings.Fields("server start-dev --ip 127.0.0.2 --port 1234 --namespace one --namespace default "+
		"--dynamic-config-value frontend.enableServerVersionCheck=false --dynamic-config-value a=7 --dynamic-config-value b=10s "+
		"--search-attribute CustomerId=Keyword --search-attribute Since=Datetime --db-filename t.db --log-level error --log-format json"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got.address() != "127.0.0.2:1234" || got.uiAddress() != "127.0.0.2:2234" || got.headless || got.dbFile != "t.db" {
		t.Errorf("addresses or file: %+v", got)
	}
	if len(got.namespaces) != 2 || got.namespaces[0] != "default" || got.namespaces[1] != "one" {
		t.Errorf("namespaces = %q, want default and one", got.namespaces)
	}
	if v := got.dynamicConfig; v["frontend.enableServerVersionCheck"] != false || v["a"] != 7 || v["b"] != "10s" {
		t.Errorf("dynamic configuration = %#v", v)
	}
	if a := got.searchAttributes; a["CustomerId"] != enumspb.INDEXED_VALUE_TYPE_KEYWORD || a["Since"] != enumspb.INDEXED_VALUE_TYPE_DATETIME {
		t.Errorf("search attributes = %v", a)
	}

	for args, want := range map[string]string{
		"start":                      `unexpected argument "start"`,
		"--port 70000":               "want 1 to 65535",
		"--ui-port 7233":             "both 7233",
		"--ip localhost":             "unable to parse IP",
		"--search-attribute A":       "want name=type",
		"--search-attribute A=Words": "no type of a search attribute",
		"--dynamic-config-value a":   "want key=value",
		"--log-level loud":           "want debug, info",
		"--log-format xml":           "want text, pretty or json",
		"--nope":                     "not defined: -nope",
	} {
		if _, err := parseFlags(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseFlags(%q) = %v, want an error that holds %q", args, err, want)
		}
	}

	var help bytes.Buffer
	if _, err := parseFlags([]string{"-h"}, &help); err == nil || !strings.Contains(help.String(), "-search-attribute name=type") {
		t.Errorf("-h: %v, printed %q", err, help.String())
	}
}

// child is a devserver process.
type child struct {
	cmd   *exec.Cmd
	port  int
	stdin io.Closer
	out   *bytes.Buffer
	done  chan struct{}
}

// startServer starts a headless server, which is killed when the test ends if it still runs.
func startServer(t *testing.T, args ...string) *child {
	t.Helper()
	port := freePortOf(t)
	s := &child{out: new(bytes.Buffer), done: make(chan struct{})}
	s.port, _ = strconv.Atoi(port)
	s.cmd = exec.Command(os.Args[0], append([]string{"--headless", "--port", port, "--log-level", "error"}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	s.client(t)
	return s
}

func (s *child) client(t *testing.T) client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), attributesTimeout)
	defer cancel()
	c, err := dial(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

func (s *child) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// wait returns the exit code once the process has ended.
func (s *child) wait() int {
	<-s.done
	return s.cmd.ProcessState.ExitCode()
}

// output is all that an ended process wrote.
func (s *child) output() string {
	<-s.done
	return s.out.String()
}

func freePortOf(t *testing.T) string {
	t.Helper()
	port, err := freePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// eventually asks again and again until what is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
