package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

const (
	// tailLines is how many of its last lines are shown of a process that died: enough for a panic and its first frames.
	tailLines = 20
	// maxLine bounds the memory that a line without an end may take.
	maxLine = 64 << 10
)

// serious matches lines worth a developer's attention in any of the formats that the processes log in: slog as text and
// as JSON, zap as Temporal's server has it, NATS, and what the Go runtime says at the end.
var serious = regexp.MustCompile(`level=(WARN|ERROR)|"level":"(?i:warn|error|fatal|panic|dpanic)"|\t(warn|error|fatal|panic|dpanic)\t|\[(WRN|ERR|FTL)\]|^panic: |^fatal error: `)

// processLog is where a process writes: a file, of which people are shown what is serious. It outlives the process and
// is handed to its successor.
type processLog struct {
	name    string
	path    string
	verbose bool

	mu   sync.Mutex
	file *os.File
	line []byte   // The last, unfinished one.
	tail [][]byte // The last finished ones.
}

// openLog begins a new file and keeps one old one, with .1 behind its name.
func openLog(folder, name string, verbose bool) (*processLog, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, name+".log")
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &processLog{name: name, path: path, verbose: verbose, file: file}, nil
}

// Write takes what the process writes. It never fails: a full disk must not end a process.
func (l *processLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.file.Write(b)
	l.line = append(l.line, b...)
	for {
		line, after, found := bytes.Cut(l.line, []byte("\n"))
		if !found {
			if len(line) < maxLine {
				return len(b), nil
			}
			after = nil
		}
		if l.verbose || serious.Match(line) {
			fmt.Fprintf(output, "%-8s | %s\n", l.name, line)
		}
		if len(l.tail) == tailLines {
			l.tail = l.tail[1:]
		}
		l.tail = append(l.tail, bytes.Clone(line))
		l.line = after
		if !found {
			return len(b), nil
		}
	}
}

// takeTail returns the last lines and forgets them, so that a successor's death is not told with them.
func (l *processLog) takeTail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) > 0 {
		l.tail = append(l.tail, l.line)
	}
	var b bytes.Buffer
	for _, line := range l.tail {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	l.tail, l.line = nil, nil
	return b.String()
}

func (l *processLog) close() error { return l.file.Close() }
