package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// host is the only address that anything listens on: there is no authentication.
const host = "127.0.0.1"

// defaultFolder is where everything is kept, below the current folder.
const defaultFolder = ".holdfast"

// errUsage is returned for arguments about which the flag package has printed what is wrong.
var errUsage = errors.New("wrong arguments")

// options is what the command line and the environment say.
type options struct {
	folder string // Absolute. What is kept, logged and built lies below it.

	temporalPort int
	uiPort       int
	natsPort     int
	httpPort     int

	durable        bool
	verbose        bool
	exitWithParent bool
}

func parseOptions(args []string) (options, error) {
	opts := options{folder: os.Getenv("HOLDFAST_DATA")}
	if opts.folder == "" {
		opts.folder = defaultFolder
	}
	fs := flag.NewFlagSet("dev", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), usage)
		fs.PrintDefaults()
		fmt.Fprint(fs.Output(), environment)
	}
	fs.StringVar(&opts.folder, "data", opts.folder, "`folder` for all that is kept (data), logged (logs) and built (bin)")
	for _, p := range opts.ports() {
		fs.IntVar(p.number, p.flag, p.preset, "`port` of "+p.what)
	}
	fs.BoolVar(&opts.durable, "durable", false, "have NATS sync each write to the disk, as a deployment with one server should")
	fs.BoolVar(&opts.verbose, "verbose", false, "show all that the processes log, not only warnings and errors")
	fs.BoolVar(&opts.exitWithParent, "exit-with-parent", false, "end everything when the process that started this one is gone")
	if err := parse(fs, args); err != nil {
		return options{}, err
	}

	folder, err := filepath.Abs(opts.folder)
	if err != nil {
		return options{}, err
	}
	opts.folder = folder
	used := map[int]string{}
	for _, p := range opts.ports() {
		if *p.number < 1 || *p.number > 65535 {
			return options{}, fmt.Errorf("-%s %d: want 1 to 65535", p.flag, *p.number)
		}
		if other, taken := used[*p.number]; taken {
			return options{}, fmt.Errorf("-%s and -%s are both %d", other, p.flag, *p.number)
		}
		used[*p.number] = p.flag
	}
	return opts, nil
}

// parse parses flags where no other arguments may follow.
func parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return nil
}

// port is one that something here listens on.
type port struct {
	number *int
	preset int
	flag   string
	what   string
}

func (o *options) ports() []port {
	return []port{
		{&o.httpPort, 8080, "http-port", "the gateway (HTTP)"},
		{&o.temporalPort, 7233, "temporal-port", "Temporal's frontend (gRPC)"},
		{&o.uiPort, 8233, "ui-port", "Temporal's Web UI (HTTP)"},
		{&o.natsPort, 4222, "nats-port", "NATS"},
	}
}

func (o options) data() string { return filepath.Join(o.folder, "data") }
func (o options) logs() string { return filepath.Join(o.folder, "logs") }
func (o options) bin() string  { return filepath.Join(o.folder, "bin") }

func (o options) temporalAddress() string {
	return net.JoinHostPort(host, strconv.Itoa(o.temporalPort))
}

func (o options) httpAddress() string { return net.JoinHostPort(host, strconv.Itoa(o.httpPort)) }

func (o options) natsURL() string {
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(o.natsPort))
}
