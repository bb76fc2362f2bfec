package holdfast_test

import (
	"os"
	"strings"
	"testing"
)

// The README's first agent is a program in this repository, so it compiles. Here it is held to be the same text.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("examples/weather/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if block := "```go\n" + string(example) + "```\n"; !strings.Contains(string(readme), block) {
		t.Error("README.md does not show examples/weather/main.go as it is; copy it into the Go block")
	}
	for _, command := range []string{"\nmake dev\n", "\nmake test\n"} {
		if !strings.Contains(string(readme), command) {
			t.Errorf("README.md lacks the command %q", strings.TrimSpace(command))
		}
	}
}
