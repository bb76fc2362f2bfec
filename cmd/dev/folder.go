package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// modulePath is how a checkout is recognised.
const modulePath = "github.com/holdfast-dev/holdfast"

// findCheckout is the folder with this module's sources: the current one or one above it.
func findCheckout() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module "+modulePath+"\n") {
			return folder, nil
		}
		if filepath.Dir(folder) == folder {
			return "", fmt.Errorf("%s is not inside a checkout of %s: Temporal's server, worker and gateway are built from its sources", start, modulePath)
		}
	}
}

// lockFolder makes the folder and keeps it for this process. The operating system drops the lock when the process ends,
// however it ends.
func lockFolder(folder string) (unlock func(), err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("folder for all that is kept: %w (choose another with -data or HOLDFAST_DATA)", err)
	}
	path := filepath.Join(folder, "lock")
	lock := flock.New(path)
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", folder, err)
	}
	if !locked {
		holder := "another process"
		if pid, err := os.ReadFile(path); err == nil && len(pid) > 0 {
			holder = "process " + strings.TrimSpace(string(pid))
		}
		return nil, fmt.Errorf("%s is in use by %s: stop that one, or use another folder and other ports "+
			"(HOLDFAST_DATA=.holdfast2 make dev ARGS='-http-port 8081 -temporal-port 7234 -ui-port 8234 -nats-port 4223')", folder, holder)
	}
	unlock = func() { _ = lock.Unlock() }
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return unlock, nil
}
