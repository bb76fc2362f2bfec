package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
)

const (
	// defaultNamespace always exists, as with `temporal server start-dev`.
	defaultNamespace = "default"
	// uiPortOffset is where the Web UI listens when no port is given: `temporal server start-dev` adds 1000, too.
	uiPortOffset = 1000
)

// options is what the command line says.
type options struct {
	ip               netip.Addr
	port             int
	uiPort           int
	headless         bool
	namespaces       []string
	dbFile           string // Empty: in memory.
	searchAttributes map[string]enumspb.IndexedValueType
	dynamicConfig    map[string]any
	logLevel         string
	logFormat        string
	exitWithStdin    bool
	exitWithParent   bool
	version          bool
}

const usage = `devserver runs a Temporal server for development and tests: all services, SQLite and the Web UI in one process.

Usage:
  devserver [server start-dev] [flags]

Flags (with one dash or two):
`

// parseFlags reads the command line. Help goes to out, and the error is then flag.ErrHelp.
func parseFlags(args []string, out io.Writer) (options, error) {
	if len(args) >= 2 && args[0] == "server" && args[1] == "start-dev" {
		args = args[2:]
	}
	opts := options{
		ip:               netip.AddrFrom4([4]byte{127, 0, 0, 1}),
		namespaces:       []string{defaultNamespace},
		searchAttributes: map[string]enumspb.IndexedValueType{},
		dynamicConfig:    map[string]any{},
	}
	fs := flag.NewFlagSet("devserver", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // Errors are returned, and help is printed below.
	fs.Usage = func() {}
	fs.TextVar(&opts.ip, "ip", opts.ip, "`address` to listen on")
	fs.IntVar(&opts.port, "port", 7233, "`port` of the gRPC frontend")
	fs.IntVar(&opts.uiPort, "ui-port", 0, "`port` of the Web UI (default: --port plus 1000)")
	fs.BoolVar(&opts.headless, "headless", false, "serve no Web UI")
	fs.Func("namespace", "`name` of a namespace to create beside \"default\"; may be repeated", func(s string) error {
		if s == "" {
			return errors.New("a namespace needs a name")
		}
		if s != defaultNamespace {
			opts.namespaces = append(opts.namespaces, s)
		}
		return nil
	})
	fs.StringVar(&opts.dbFile, "db-filename", "", "`file` that keeps everything; made when it is missing (default: in memory, forgotten at exit)")
	fs.Func("search-attribute", "`name=type` of a search attribute to add to every namespace, type being one of Text, Keyword,\nInt, Double, Bool, Datetime, KeywordList; may be repeated", func(s string) error {
		name, kind, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return errors.New("want name=type")
		}
		t, err := enumspb.IndexedValueTypeFromString(kind)
		if err != nil || t == enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return fmt.Errorf("%q is no type of a search attribute", kind)
		}
		opts.searchAttributes[name] = t
		return nil
	})
	fs.Func("dynamic-config-value", "`key=value` of the server's dynamic configuration, the value being JSON or plain text; wins over what this\nprogram sets by itself; may be repeated", func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return errors.New("want key=value")
		}
		opts.dynamicConfig[key] = dynamicValue(value)
		return nil
	})
	fs.StringVar(&opts.logLevel, "log-level", "warn", "lowest `level` to log: debug, info, warn, error, never")
	fs.StringVar(&opts.logFormat, "log-format", "text", "`format` of the log: text, json (pretty is text)")
	fs.BoolVar(&opts.exitWithStdin, "exit-with-stdin", false, "stop when standard input ends: a parent that holds a pipe to it takes the server along when it dies")
	fs.BoolVar(&opts.exitWithParent, "exit-with-parent", false, "stop when the parent process is gone")
	fs.BoolVar(&opts.version, "version", false, "print the version of the Temporal server and exit")

	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, usage)
			fs.SetOutput(out)
			fs.PrintDefaults()
		}
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if opts.uiPort == 0 {
		opts.uiPort = opts.port + uiPortOffset
	}
	return opts, opts.validate()
}

func (o options) validate() error {
	if o.port < 1 || o.port > 65535 {
		return fmt.Errorf("--port %d: want 1 to 65535", o.port)
	}
	if !o.headless && (o.uiPort < 1 || o.uiPort > 65535) {
		return fmt.Errorf("--ui-port %d: want 1 to 65535", o.uiPort)
	}
	if !o.headless && o.uiPort == o.port {
		return fmt.Errorf("--ui-port and --port are both %d", o.port)
	}
	switch o.logLevel {
	case "debug", "info", "warn", "error", "never":
	default:
		return fmt.Errorf("--log-level %q: want debug, info, warn, error or never", o.logLevel)
	}
	switch o.logFormat {
	case "text", "pretty", "json":
	default:
		return fmt.Errorf("--log-format %q: want text, pretty or json", o.logFormat)
	}
	return nil
}

// dynamicValue is v as JSON, or as text when it is none: durations (10s) are given without quotes, too.
func dynamicValue(v string) any {
	// The server converts between numbers only where nothing is lost, so 1 must not arrive as 1.0.
	if n, err := strconv.Atoi(v); err == nil {
		return n
	}
	var decoded any
	if err := json.Unmarshal([]byte(v), &decoded); err != nil {
		return v
	}
	return decoded
}

// address is where the frontend listens.
func (o options) address() string { return net.JoinHostPort(o.ip.String(), strconv.Itoa(o.port)) }

// uiAddress is where the Web UI listens.
func (o options) uiAddress() string { return net.JoinHostPort(o.ip.String(), strconv.Itoa(o.uiPort)) }

// loopback is the address on which the server's parts reach each other.
func (o options) loopback() string {
	switch {
	case !o.ip.IsUnspecified():
		return o.ip.String()
	case o.ip.Is6():
		return "::1"
	default:
		return "127.0.0.1"
	}
}

// storage says in words where things are kept.
func (o options) storage() string {
	if o.dbFile == "" {
		return "in memory"
	}
	return "in " + o.dbFile
}
