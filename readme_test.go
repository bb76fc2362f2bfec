package holdfast_test

import (
	"os"
	"strings"
	"testing"
)

// The README's first agent and its test are a program in this repository, so they compile and run. Here they are held to
// be the same text.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"examples/weather/main.go", "examples/weather/main_test.go"} {
		example, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if block := "```go\n" + string(example) + "```\n"; !strings.Contains(string(readme), block) {
			t.Errorf("README.md does not show %s as it is; copy it into the Go block", name)
		}
	}
	for _, command := range []string{"\nmake dev\n", "\nmake test\n"} {
		if !strings.Contains(string(readme), command) {
			t.Errorf("README.md lacks the command %q", strings.TrimSpace(command))
		}
	}
}
