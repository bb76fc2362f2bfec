package judge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Effect is one execution of a tool, as the tool wrote it down: a line "tool item key attempt".
type Effect struct{ Tool, Item, Key, Attempt string }

// Effects reads what was done about an item.
func Effects(path, item string) ([]Effect, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var done []Effect
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, fmt.Errorf("a broken line %q", line)
		}
		if f[1] == item {
			done = append(done, Effect{f[0], f[1], f[2], f[3]})
		}
	}
	return done, nil
}

// Declared checks the effects of one call against its tool's class: once at most, or any number of times, each by an
// attempt of its own, and all under one key.
func Declared(effects []Effect, once bool) error {
	attempts := map[string]bool{}
	for _, e := range effects {
		if e.Key != effects[0].Key || attempts[e.Attempt] {
			return fmt.Errorf("effects %v, want each by another attempt, and all under one key", effects)
		}
		attempts[e.Attempt] = true
	}
	if once && len(effects) > 1 {
		return fmt.Errorf("%d effects of what must happen once: %v", len(effects), effects)
	}
	return nil
}
