package main

import (
	"os/exec"
	"runtime"
)

// spawner starts processes that do not outlive this one.
//
// Two things see to that, however this process ends. On Linux the kernel kills a child when the thread that forked it
// is gone; a thread of the Go runtime may be gone long before the process, so all are forked from one that never is.
// Everywhere, the child's standard input is a pipe whose other end only this process holds: it ends with this process,
// and then the child stops itself.
type spawner struct{ start chan spawn }

type spawn struct {
	cmd *exec.Cmd
	err chan error
}

func newSpawner() *spawner {
	s := &spawner{start: make(chan spawn)}
	go func() {
		runtime.LockOSThread() // Never unlocked: a locked goroutine's thread lives as long as the goroutine, and this one does not end.
		for request := range s.start {
			request.err <- request.cmd.Start()
		}
	}()
	return s
}

// Start starts cmd, with a process group of its own: a terminal's Ctrl-C then reaches this process only, which stops the
// others in order.
func (s *spawner) Start(cmd *exec.Cmd) error {
	bind(cmd)
	request := spawn{cmd: cmd, err: make(chan error, 1)}
	s.start <- request
	return <-request.err
}
