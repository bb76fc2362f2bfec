package researcher

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// endsAfter is a context that is cancelled when it has been looked at some times,
// so that the end comes in the middle of the work.
type endsAfter struct {
	context.Context
	looks int
}

func (c *endsAfter) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

func TestWalkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if err := os.Mkdir(filepath.Join(path, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	root, err := folder(path).open()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // only read from
	var last error
	steps := 0
	for _, err := range walk(&endsAfter{Context: t.Context(), looks: 3}, root, ".") {
		last = err
		steps++
	}
	if !errors.Is(last, context.Canceled) || steps != 6 {
		t.Errorf("after %d steps: %v, want context.Canceled after 5 folders", steps, last)
	}
}
