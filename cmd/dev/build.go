package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	// progressInterval is how often a build that takes long says how far it is.
	progressInterval = 5 * time.Second
	// staleAge is how long a devserver that nobody used stays in the cache; each is 150 MB.
	staleAge = 14 * 24 * time.Hour
	// lockInterval is how often a build that another process does is asked for.
	lockInterval = 200 * time.Millisecond
)

// ensureDevserver returns the path of a devserver that was built from the checkout's sources, building it when needed.
// Any number of processes may ask at once; one builds and the others wait.
func ensureDevserver(ctx context.Context, spawner *spawner, root string) (string, error) {
	if path := os.Getenv("HOLDFAST_DEVSERVER"); path != "" {
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			return "", fmt.Errorf("HOLDFAST_DEVSERVER=%s is no program: name a built devserver, or unset it to have one built", path)
		}
		return filepath.Abs(path)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("nowhere to keep Temporal's server: %w (HOLDFAST_DEVSERVER may name one that is built)", err)
	}
	cache = filepath.Join(cache, "holdfast")
	key, err := devserverKey(filepath.Join(root, "devserver"))
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "devserver-"+key)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if usable(path) {
		return path, nil
	}

	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(cache, "devserver.lock"))
	if locked, err := lock.TryLock(); err != nil {
		return "", fmt.Errorf("lock %s: %w", cache, err)
	} else if !locked {
		say("another process is building Temporal's server; waiting for it")
		if _, err := lock.TryLockContext(ctx, lockInterval); err != nil {
			return "", fmt.Errorf("wait for the build of Temporal's server: %w", err)
		}
	}
	defer func() { _ = lock.Unlock() }()
	if usable(path) { // The other process has built it.
		return path, nil
	}
	if err := buildDevserver(ctx, spawner, root, path); err != nil {
		return "", err
	}
	forgetStale(cache)
	return path, nil
}

// usable tells whether a devserver is there, and notes that it is used.
func usable(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

// devserverKey names what a devserver is built from: its sources, its modules, and the toolchain.
func devserverKey(folder string) (string, error) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	entries, err := os.ReadDir(folder) // Sorted by name.
	if err != nil {
		return "", fmt.Errorf("sources of Temporal's server: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if !source && name != "go.mod" && name != "go.sum" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

func buildDevserver(ctx context.Context, spawner *spawner, root, path string) error {
	say("building Temporal's server into %s", path)
	say("this is done once; on two cores and from nothing it takes about six minutes")
	began := time.Now()
	folder := filepath.Join(root, "devserver")

	// The list is only for the total, but making it also fetches the modules.
	list, err := runGo(ctx, spawner, "fetching what Temporal's server is made of", 0, "-C", folder, "list", "-deps", ".")
	if err != nil {
		return err
	}
	unfinished := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer func() { _ = os.Remove(unfinished) }() // Unless it was renamed.
	_, err = runGo(ctx, spawner, "building Temporal's server", bytes.Count(list, []byte("\n")),
		"-C", folder, "build", "-v", "-ldflags", "-s -w", "-o", unfinished, ".") // Without symbols: 150 MB, not 220.
	if err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	say("built Temporal's server in %s", time.Since(began).Round(time.Second))
	return nil
}

// buildCommands builds worker and gateway into folder. Where nothing has changed it takes about a second.
func buildCommands(ctx context.Context, spawner *spawner, root, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	_, err := runGo(ctx, spawner, "building worker and gateway", 0,
		"-C", root, "build", "-v", "-o", folder+string(filepath.Separator), "./cmd/worker", "./cmd/gateway")
	return err
}

// forgetStale removes devservers that were last used long ago.
func forgetStale(cache string) {
	entries, err := filepath.Glob(filepath.Join(cache, "devserver-*"))
	if err != nil {
		return
	}
	for _, path := range entries {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > staleAge {
			_ = os.Remove(path) // One that is in use stays, or goes when it ends.
		}
	}
}

// runGo runs the go command and returns its standard output. It says every few seconds how far it is: what, then a count
// of the packages compiled so far, out of total when that is known.
func runGo(ctx context.Context, spawner *spawner, what string, total int, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	// A workspace would unify the build lists of the two modules, and Temporal's server does not compile with the result.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Cancel = func() error { return killGroup(cmd) }
	progress := &goProgress{what: what, total: total, began: time.Now()}
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, progress
	cmd.WaitDelay = time.Second
	if err := spawner.Start(cmd); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: the go command is not in PATH", what)
		}
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				say("%s", progress)
			case <-done:
				return
			}
		}
	})
	err := cmd.Wait()
	close(done)
	ticking.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: go %s: %w\n%s", what, strings.Join(args, " "), err, progress.rest())
	}
	return stdout.Bytes(), nil
}

// goProgress counts what the go command says it has done, and keeps what else it says.
type goProgress struct {
	what  string
	total int // Packages to compile at most; 0 when unknown.
	began time.Time

	mu         sync.Mutex
	line       []byte // The last, unfinished one.
	downloaded int
	compiled   int
	said       bytes.Buffer
}

var _ io.Writer = (*goProgress)(nil)

// Write takes the go command's standard error: a line for each module that is downloaded and, with -v, one for each
// package that is compiled, its import path alone.
func (p *goProgress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, b...)
	for {
		line, after, found := bytes.Cut(p.line, []byte("\n"))
		if !found {
			return len(b), nil
		}
		switch {
		case bytes.HasPrefix(line, []byte("go: downloading ")):
			p.downloaded++
		case len(line) > 0 && !bytes.ContainsAny(line, " \t#"):
			p.compiled++
		default:
			p.said.Write(line)
			p.said.WriteByte('\n')
		}
		p.line = after
	}
}

// String is one line about how far it is.
func (p *goProgress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", p.what, time.Since(p.began).Round(time.Second))
	if p.downloaded > 0 {
		fmt.Fprintf(&b, ", %d modules downloaded", p.downloaded)
	}
	switch {
	case p.compiled > 0 && p.total > 0:
		fmt.Fprintf(&b, ", %d of %d packages compiled", p.compiled, max(p.total, p.compiled))
	case p.compiled > 0:
		fmt.Fprintf(&b, ", %d packages compiled", p.compiled)
	}
	return b.String()
}

// rest is what the go command said beside its progress: its errors.
func (p *goProgress) rest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String() + string(p.line)
}
