package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// A process that dies is started again after firstBackoff, and each time in a row after twice as long, at most
	// lastBackoff. One that lived for quickDeath starts a new row; maxDeaths in a row are a fault that starting again
	// does not mend.
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 5 * time.Second
	quickDeath   = 10 * time.Second
	maxDeaths    = 5

	probeInterval = 50 * time.Millisecond
	probeTimeout  = 2 * time.Second
	// readyTimeout bounds a start. Recovering a large store takes seconds.
	readyTimeout = 2 * time.Minute
	// waitNotice is how often a start that takes long says what it waits for.
	waitNotice = 5 * time.Second
)

// probe looks once whether a process that was started at a time serves. Its error says what is amiss.
type probe func(ctx context.Context, started time.Time) error

// program is what to run and how to tell that it serves.
type program struct {
	name        string
	path        string
	args        []string
	env         []string
	ready       probe
	stopTimeout time.Duration // From the request to stop to being killed.
}

// process is a program that is kept running until it is stopped.
type process struct {
	program
	spawner *spawner
	log     *processLog
	failed  chan<- error // Gets one error when it is given up.

	served   atomic.Bool   // It has been ready at least once.
	stopping chan struct{} // Closed by stop.
	ended    chan struct{} // Closed when it runs no more and is not started again.

	mu      sync.Mutex
	cmd     *exec.Cmd // Nil while it does not run.
	stdin   io.Closer
	started time.Time
}

// keepRunning starts the program and starts it again whenever it dies.
func keepRunning(p program, spawner *spawner, log *processLog, failed chan<- error) *process {
	proc := &process{
		program: p, spawner: spawner, log: log, failed: failed,
		stopping: make(chan struct{}), ended: make(chan struct{}),
	}
	go proc.supervise()
	return proc
}

func (p *process) supervise() {
	defer close(p.ended)
	deaths := 0
	for {
		began := time.Now()
		cmd, err := p.spawn()
		if err != nil {
			p.failed <- fmt.Errorf("start %s: %w", p.name, err)
			return
		}
		if cmd == nil { // Stopped meanwhile.
			return
		}
		lived := make(chan struct{})
		if deaths > 0 {
			go p.tellReady(lived)
		}
		_ = cmd.Wait() // How it ended is in its state.
		close(lived)
		p.forget()
		select {
		case <-p.stopping:
			return
		default:
		}

		age := time.Since(began)
		if tail := p.log.takeTail(); killed(cmd) { // From outside: its log does not know why.
			say("%s was killed after %s", p.name, age.Round(time.Millisecond))
		} else {
			say("%s ended after %s (%s); its last lines, more in %s:\n%s", p.name, age.Round(time.Millisecond), cmd.ProcessState, p.log.path, tail)
		}
		if age >= quickDeath {
			deaths = 0
		}
		deaths++
		switch {
		case !p.served.Load() && cmd.ProcessState.Exited(): // It gave up by itself: what it said is why.
			p.failed <- fmt.Errorf("%s does not start (%s)", p.name, cmd.ProcessState)
			return
		case deaths > maxDeaths:
			p.failed <- fmt.Errorf("%s died %d times in a row, each time within %s", p.name, deaths, quickDeath)
			return
		}
		wait := min(firstBackoff<<(deaths-1), lastBackoff)
		say("starting %s again in %s", p.name, wait)
		select {
		case <-p.stopping:
			return
		case <-time.After(wait):
		}
	}
}

// spawn starts it once. It returns nil when it was stopped before.
func (p *process) spawn() (*exec.Cmd, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stopping:
		return nil, nil
	default:
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = p.env
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.started = time.Now()
	if err := p.spawner.Start(cmd); err != nil {
		return nil, err
	}
	p.cmd, p.stdin = cmd, stdin
	return cmd, nil
}

func (p *process) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.stdin = nil, nil
}

// tellReady says when a process that was started again serves again, unless it dies before.
func (p *process) tellReady(lived <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	began := time.Now()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for p.look(ctx) != nil {
		select {
		case <-lived:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	say("%s serves again after %s", p.name, time.Since(began).Round(time.Millisecond))
}

func (p *process) look(ctx context.Context) error {
	p.mu.Lock()
	running, started := p.cmd != nil, p.started
	p.mu.Unlock()
	if !running { // What answers now, if anything does, is something else.
		return errors.New("it does not run")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return p.ready(ctx, started)
}

// awaitReady returns when the process serves for the first time.
func (p *process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %s", readyTimeout))
	defer cancel()
	began := time.Now()
	probe, notice := time.NewTicker(probeInterval), time.NewTicker(waitNotice)
	defer probe.Stop()
	defer notice.Stop()
	for {
		err := p.look(ctx)
		if err == nil {
			p.served.Store(true)
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("%s: %w: %w", p.name, context.Cause(ctx), err)
		case <-p.ended:
			return fmt.Errorf("%s ended before it was ready", p.name)
		case <-notice.C:
			say("still waiting for %s after %s: %v", p.name, time.Since(began).Round(time.Second), err)
		case <-probe.C:
		}
	}
}

// stop asks it to end, kills it when it does not within its time, and returns when it has ended.
func (p *process) stop() {
	p.mu.Lock()
	close(p.stopping)
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // It may have ended meanwhile.
		_ = p.stdin.Close()
	}
	p.mu.Unlock()
	select {
	case <-p.ended:
		return
	case <-time.After(p.stopTimeout):
	}
	say("%s has not stopped within %s; killing it", p.name, p.stopTimeout)
	p.mu.Lock()
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
	}
	p.mu.Unlock()
	<-p.ended
}
