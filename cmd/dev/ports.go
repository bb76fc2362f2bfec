package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	// portPatience is how long a taken port may take to become free: one second is enough for the processes of a killed
	// predecessor to be gone.
	portPatience = time.Second
	portInterval = 50 * time.Millisecond
)

// checkPorts says which ports are taken, what was to listen there, and what to change.
func checkPorts(opts options) error {
	var taken []error
	deadline := time.Now().Add(portPatience)
	for _, p := range opts.ports() {
		err := listenable(*p.number)
		for err != nil && time.Now().Before(deadline) {
			time.Sleep(portInterval)
			err = listenable(*p.number)
		}
		if err != nil {
			taken = append(taken, fmt.Errorf("port %d is needed for %s, and it cannot be listened on: %w; stop what uses it, or choose another port with -%s (make dev ARGS='-%s %d')",
				*p.number, p.what, err, p.flag, p.flag, *p.number+1))
		}
	}
	return errors.Join(taken...)
}

func listenable(number int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(number)))
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			return op.Err // Without the address, which the caller names.
		}
		return err
	}
	return l.Close()
}
