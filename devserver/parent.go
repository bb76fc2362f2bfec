package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// parentInterval is how often the parent's life is looked at; a look costs one system call.
const parentInterval = 250 * time.Millisecond

var (
	errStdinClosed = errors.New("standard input has ended")
	errParentGone  = errors.New("the parent process is gone")
)

// watchParent calls gone when the parent dies, in the ways that the options ask for. It does not block, and what it
// starts ends with the process.
func watchParent(opts options, gone context.CancelCauseFunc) {
	if opts.exitWithStdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			gone(errStdinClosed)
		}()
	}
	if opts.exitWithParent {
		parent := os.Getppid()
		go func() {
			for range time.Tick(parentInterval) {
				if os.Getppid() != parent { // Orphans are given another parent.
					gone(errParentGone)
					return
				}
			}
		}()
	}
}
