package librarian_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/agenttest"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/mcptool"
	"github.com/holdfast-dev/holdfast/examples/librarian"
)

const envServe = "LIBRARIAN_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(envServe) != "" {
		_ = librarian.NewServer().Run(context.Background(), &mcp.StdioTransport{}) // ends with its client
		return
	}
	os.Exit(m.Run())
}

// outside is the library in a process of its own.
func outside() *mcptool.Server {
	return mcptool.New("library", func() mcp.Transport {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envServe+"=1")
		return &mcp.CommandTransport{Command: cmd}
	}, mcptool.Options{})
}

func call(t *testing.T, a agent.Agent, name, key, args string) (string, error) {
	t.Helper()
	tl, ok := a.Tool(name)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	result, err := tool.Run(t.Context(), tl, tool.NewCall(tool.CallInfo{ID: "c1", IdempotencyKey: key}), json.RawMessage(args))
	return result.Content.Text(), err
}

// A loan that is made again because a worker was lost is the same loan.
func TestLoanIsMadeOnce(t *testing.T) {
	t.Parallel()
	open := func() agent.Agent {
		library := librarian.Connect()
		t.Cleanup(func() { _ = library.Close() })
		return librarian.Agent(context.Background(), library)
	}
	x := agenttest.New(t, open(), agenttest.Call("lend_book", `{"title":"The Log"}`), agenttest.Text("Here it is."))
	x.Fresh = open
	r := x.Ask(`Lend me "The Log".`)
	x.Crash(r)
	if calls := r.Calls(); len(calls) != 1 || !strings.Contains(calls[0].Result, `"lent":true`) {
		t.Errorf("calls %v", calls)
	}
}

func TestLibrarian(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func() *mcptool.Server{"inside": librarian.Connect, "outside": outside} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			library := connect()
			defer func() { _ = library.Close() }() // a process of its own may end first
			a := librarian.Agent(t.Context(), library)
			if err := a.Validate(); err != nil {
				t.Fatal(err)
			}
			if found, err := call(t, a, "find_books", "k0", `{"query":"CLOCKS"}`); err != nil ||
				found != `{"books":[{"author":"L. Lamport","lent":false,"shelf":"A2","title":"Time, Clocks, and the Ordering of Events"}]}` {
				t.Errorf("%s, %v", found, err)
			}
			const lent = `{"author":"J. Kreps","lent":true,"shelf":"A1","title":"The Log"}`
			for range 2 { // a call that is made again is the same loan
				if got, err := call(t, a, "lend_book", "k1", `{"title":"the log"}`); err != nil || got != lent {
					t.Errorf("%s, %v", got, err)
				}
			}
			_, err := call(t, a, "lend_book", "k2", `{"title":"The Log"}`)
			if shown, ok := errors.AsType[*tool.Error](err); !ok || shown.Message != "the book is lent already" {
				t.Errorf("another's loan: %v", err)
			}
			find, _ := a.Tool("find_books")
			lend, _ := a.Tool("lend_book")
			if find.Spec().Effect != tool.ReadOnly || lend.Spec().Effect != tool.Idempotent {
				t.Errorf("effects %s and %s", find.Spec().Effect, lend.Spec().Effect)
			}
		})
	}
}
