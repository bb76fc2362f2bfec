// Package researcher is an example agent that answers questions from the files
// below a folder. It lists, searches and reads them, and it can neither change
// anything nor see anything outside of the folder or behind a leading dot.
//
// All its tools are read-only, so a call whose worker died is simply made again.
package researcher

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

// toolTimeout bounds one call; the limits on what it reads end it long before.
const toolTimeout = 30 * time.Second

// Agent returns the researcher for a folder, which has to exist.
func Agent(path string) (agent.Agent, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return agent.Agent{}, fmt.Errorf("researcher's folder %q: %w", path, err)
	}
	root, err := os.OpenRoot(absolute)
	if err != nil {
		return agent.Agent{}, fmt.Errorf("researcher's folder: %w", err)
	}
	if err := root.Close(); err != nil {
		return agent.Agent{}, fmt.Errorf("researcher's folder: %w", err)
	}
	f := folder(absolute)
	return agent.Agent{
		Name:        "researcher",
		Description: "Answers questions from the files in a folder.",
		Instructions: "You answer questions from the files in a folder. Search or list first, then read what looks " +
			"relevant, and answer from what you read. Name the file and the line for what you say. If the files " +
			"don't have the answer, say so; never make one up.",
		Tools: []tool.Tool{listFiles(f), searchFiles(f), readFile(f)},
	}, nil
}
