package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"time"
)

// counts are what a child counts of itself when it is asked.
type counts map[string]func() (int, error)

// serveControl serves what this program asks of a child: to free memory before it is counted, to count its goroutines and
// whatever else it can count, and to profile itself. It exists in the children of this program only.
func serveControl(also counts) (address string, err error) {
	var profile struct {
		sync.Mutex
		cpu *os.File
	}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	mux.HandleFunc("POST /count", func(w http.ResponseWriter, r *http.Request) {
		n, err := runtime.NumGoroutine(), error(nil)
		if count := also[r.FormValue("of")]; count != nil {
			n, err = count()
		}
		if answer(w, err); err == nil {
			_, _ = fmt.Fprint(w, n) // whoever asked is gone, or reads it
		}
	})
	mux.HandleFunc("POST /free", func(http.ResponseWriter, *http.Request) { debug.FreeOSMemory() })
	mux.HandleFunc("POST /profile/start", func(w http.ResponseWriter, r *http.Request) {
		profile.Lock()
		defer profile.Unlock()
		f, err := os.Create(r.FormValue("file") + ".cpu.pprof")
		if err == nil {
			err = pprof.StartCPUProfile(f)
			profile.cpu = f
		}
		answer(w, err)
	})
	mux.HandleFunc("POST /profile/stop", func(w http.ResponseWriter, r *http.Request) {
		profile.Lock()
		defer profile.Unlock()
		pprof.StopCPUProfile()
		err := profile.cpu.Close()
		allocs, ferr := os.Create(r.FormValue("file") + ".allocs.pprof")
		if ferr == nil {
			ferr = errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close())
		}
		answer(w, errors.Join(err, ferr))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with the process
	return "http://" + listener.Addr().String(), nil
}

// steer asks something of a child's control server.
func steer(ctx context.Context, p *process, path string, form url.Values) error {
	_, err := inquire(ctx, p, path, form)
	return err
}

// inquire is steer for whoever wants to read the answer.
func inquire(ctx context.Context, p *process, path string, form url.Values) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.said.Control+path+"?"+form.Encode(), nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.name, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", p.name, res.Status, text)
	}
	return string(text), err
}

// profiled measures a section while worker and gateway profile themselves into a folder.
func (b *bench) profiled(ctx context.Context, folder string, s section) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	each := func(path string) error {
		var found []error
		for _, p := range []*process{b.worker, b.gateway} {
			found = append(found, steer(ctx, p, path, url.Values{"file": {filepath.Join(folder, s.name+"-"+p.name)}}))
		}
		return errors.Join(found...)
	}
	if err := each("/profile/start"); err != nil {
		return err
	}
	return errors.Join(s.measure(ctx, b), each("/profile/stop"))
}
