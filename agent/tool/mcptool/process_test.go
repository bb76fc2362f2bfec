package mcptool_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool/mcptool"
)

// The environment of this binary when it is an MCP server.
const (
	envServe     = "MCPTOOL_TEST_SERVE"     // stdio, or the address to listen on
	envEffects   = "MCPTOOL_TEST_EFFECTS"   // file to which tools append what they did
	envStateless = "MCPTOOL_TEST_STATELESS" // over HTTP: without sessions
	envVersion   = "MCPTOOL_TEST_VERSION"   // of MCP, if it speaks only one
)

// patience bounds what is waited for. It is far above what anything takes.
const patience = time.Minute

func TestMain(m *testing.M) {
	if how := os.Getenv(envServe); how != "" {
		if err := serve(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve is the main function of the server process.
func serve(how string) error {
	server := newServer()
	if how == "stdio" {
		return server.Run(context.Background(), &mcp.StdioTransport{})
	}
	listener, err := net.Listen("tcp", how)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	// A handler with sessions speaks no MCP of 2026-07-28.
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: os.Getenv(envStateless) != ""})
	return http.Serve(listener, handler) //nolint:gosec // a test's own server
}

type request struct {
	Text string `json:"text,omitempty"`
	Die  bool   `json:"die,omitempty" jsonschema:"end the process when the effect has happened, unless it has happened before"`
	Wait bool   `json:"wait,omitempty"`
}

type reply struct {
	Text string `json:"text"`
	Key  string `json:"key,omitempty"`
}

// newServer has a tool of every kind.
func newServer() *mcp.Server {
	var opt mcp.ServerOptions
	if v := os.Getenv(envVersion); v != "" {
		opt.SupportedProtocolVersions = []string{v}
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &opt)
	addAsking(server)
	effect := func(ctx context.Context, req *mcp.CallToolRequest, in request) (*mcp.CallToolResult, reply, error) {
		before, err := os.ReadFile(os.Getenv(envEffects))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, reply{}, err
		}
		f, err := os.OpenFile(os.Getenv(envEffects), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, reply{}, err
		}
		_, err = fmt.Fprintln(f, in.Text)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, reply{}, err
		}
		if in.Die && !strings.Contains(string(before), in.Text+"\n") {
			os.Exit(3)
		}
		if in.Wait {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1, Total: 4, Message: "waiting"})
			<-ctx.Done()
			return nil, reply{}, ctx.Err()
		}
		key, _ := req.Params.Meta[mcptool.MetaIdempotencyKey].(string)
		return nil, reply{Text: in.Text, Key: key}, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "peek", Description: "Look.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, effect)
	mcp.AddTool(server, &mcp.Tool{Name: "notes.put", Description: "Write down.", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, effect)
	mcp.AddTool(server, &mcp.Tool{Name: "pay", Title: "Pay a bill.", Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false)}}, effect)
	mcp.AddTool(server, &mcp.Tool{Name: "picture", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, request) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.TextContent{Text: "a cat"}, &mcp.ImageContent{MIMEType: "image/png", Data: []byte("png")},
				&mcp.ResourceLink{URI: "https://example.com/cat.pdf", Name: "cat", MIMEType: "application/pdf"},
				&mcp.ResourceLink{URI: "cats://1", Name: "tom"},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "cats://2", Text: "more"}},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "cats://3", MIMEType: "audio/wav", Blob: []byte("miau")}},
			}, StructuredContent: map[string]any{"cats": 1}}, nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "fail"}, func(_ context.Context, _ *mcp.CallToolRequest, in request) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New(in.Text)
	})
	mcp.AddTool(server, &mcp.Tool{Name: "grow"}, func(context.Context, *mcp.CallToolRequest, request) (*mcp.CallToolResult, any, error) {
		server.RemoveTools("pay")
		mcp.AddTool(server, &mcp.Tool{Name: "extra"}, effect)
		return nil, "grown", nil
	})
	return server
}

// stdio is a transport to a process of its own.
func stdio(effects string) func() mcp.Transport {
	return func() mcp.Transport {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envServe+"=stdio", envEffects+"="+effects)
		return &mcp.CommandTransport{Command: cmd}
	}
}

func command(path string) *exec.Cmd { return exec.Command(path) }

// process is a server process that listens.
type process struct {
	cmd     *exec.Cmd
	address string
}

func listen(t *testing.T, address, effects string, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(append(os.Environ(), envServe+"="+address, envEffects+"="+effects), env...)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not start: %v", err)
	}
	p.address = strings.TrimSpace(line)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func overHTTP(address string) func() mcp.Transport {
	return func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: "http://" + address} }
}

// proxy passes connections on and can cut them all.
type proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	open     []net.Conn
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		all.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) pass(c net.Conn) {
	s, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	p.open = append(p.open, c, s)
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { copyAll(s, c) })
	both.Go(func() { copyAll(c, s) })
	both.Wait()
}

func copyAll(to, from net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_, _ = to.Close(), from.Close()
			return
		}
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}
