package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"text/tabwriter"

	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
)

const verifyUsage = `gateway verify checks that the results of a run's tools are what they were.

  gateway verify [-url URL] THREAD RUN

It reads the events of the run from a gateway, as any client may; of a run in progress it waits for the end. From the
name and the arguments of each call, its result and the time at which it was scheduled it computes the hash anew, and
from all hashes the root, and compares them with the hashes in the results and the root in the terminal event. It names the
first result that was changed, with its hash or without, and ends with status 1, or lists the results and ends with status 0. Errors have no hash, and
are not vouched for.

  -url URL   address of the gateway (default http://127.0.0.1:8080)

  HOLDFAST_TOKEN   bearer token, where the gateway asks for one
`

// verify is the subcommand. Its error is what there is to say when the run is not proven.
func verify(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { fmt.Fprint(flags.Output(), verifyUsage) }
	url := flags.String("url", "http://127.0.0.1:8080", "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() != 2 {
		return fmt.Errorf("%w: want a thread and a run, got %q; see gateway verify -h", errUsage, flags.Args())
	}
	client := &agui.Client{Gateway: *url, Header: http.Header{}}
	if token := os.Getenv("HOLDFAST_TOKEN"); token != "" {
		client.Header.Set("Authorization", "Bearer "+token)
	}
	var audit receipt.Audit
	for r, err := range client.Attach(ctx, agui.ThreadID(flags.Arg(0)), agui.RunID(flags.Arg(1)), "") {
		if err == nil {
			err = audit.Add(r.Event)
		}
		if errors.Is(err, receipt.ErrRoot) {
			report, _ := audit.Report()
			printReport(out, report)
		}
		if err != nil {
			return fmt.Errorf("run %s: %w", flags.Arg(1), err)
		}
	}
	report, err := audit.Report()
	if err != nil {
		return fmt.Errorf("run %s: %w", flags.Arg(1), err)
	}
	printReport(out, report)
	return nil
}

// errUsage is for a command line that makes no sense.
var errUsage = errors.New("verify")

func printReport(out io.Writer, report receipt.Report) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range report.Results {
		hash := r.Hash
		if hash == "" {
			hash = "no hash: an error"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Call, r.Name, hash)
	}
	root := report.Root
	if root == "" {
		root = "none: the run has no results to vouch for"
	}
	fmt.Fprintf(table, "root\t\t%s\n", root)
	_ = table.Flush() // a broken pipe has nobody to tell
}
