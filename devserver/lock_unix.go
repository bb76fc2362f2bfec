//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockDatabase keeps a second server off the file, which it would otherwise serve happily and ruin. The kernel drops
// the lock when the process ends, however it ends.
func lockDatabase(file string) (release func(), err error) {
	// Not the database itself: SQLite drops its own locks on a file when any descriptor of it is closed.
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by another server: stop that one, or name another file with --db-filename", file)
		}
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return func() { _ = lock.Close() }, nil
}
