// Package surveyor is an example of a tool that has its result piece by piece: it counts what is in the files below a
// folder, and shows each file when it is counted, while the rest is still to come.
//
//	Survey the files.
//
// A client sees progress and the lines of a table (activities tool_progress and tool_partial) between the beginning and
// the end of the call; the model gets only the sum, so that a folder of a thousand files costs it no more than one of ten.
package surveyor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

// maxFiles bounds one survey.
const maxFiles = 5000

// Agent returns the surveyor of a folder.
func Agent(folder string) (agent.Agent, error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return agent.Agent{}, fmt.Errorf("surveyor's folder %q: %w", folder, err)
	}
	if info, err := os.Stat(absolute); err != nil {
		return agent.Agent{}, fmt.Errorf("surveyor's folder: %w", err)
	} else if !info.IsDir() {
		return agent.Agent{}, fmt.Errorf("surveyor's folder: %s is not a folder", absolute)
	}
	return agent.Agent{
		Name:         "surveyor",
		Description:  "Counts the files, lines and words in a folder, and shows each file as it is counted.",
		Instructions: "You count what is in a folder with survey_files, and say in a sentence or two what you found.",
		Tools:        []tool.Tool{surveyFiles(absolute)},
	}, nil
}

// Survey is what the tool is asked for.
type Survey struct {
	Suffix string `json:"suffix,omitempty" jsonschema:"only files whose names end like this, for example .md"`
}

// File is a line of the table.
type File struct {
	Path  string `json:"path"`
	Lines int    `json:"lines"`
	Words int    `json:"words"`
}

// Sum is the result.
type Sum struct {
	Files   int    `json:"files"`
	Lines   int    `json:"lines"`
	Words   int    `json:"words"`
	Longest string `json:"longest,omitempty"` // file with the most lines
}

func surveyFiles(folder string) tool.Tool {
	return tool.NewStream(tool.Spec{
		Name:        "survey_files",
		Description: "Survey the files of the folder: count their lines and words. Returns the sum; the user is shown each file.",
		Effect:      tool.ReadOnly,
		Timeout:     2 * time.Minute,
		Stream:      tool.Limits{Chunks: 2*maxFiles + 1, Stall: 20 * time.Second},
	}, func(ctx context.Context, _ *tool.Call, in Survey) iter.Seq[tool.Chunk] {
		return func(yield func(tool.Chunk) bool) {
			root, err := os.OpenRoot(folder)
			if err != nil {
				yield(tool.Failed(err)) // the model reads no more than that it failed: the path is nobody's business
				return
			}
			defer func() { _ = root.Close() }()
			names, err := list(ctx, root.FS(), in.Suffix)
			if err != nil {
				yield(tool.Failed(err))
				return
			}
			var sum Sum
			most := -1
			for i, name := range names {
				file, err := count(ctx, root.FS(), name)
				if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
					continue // what is not to be read is not counted
				}
				if err != nil {
					yield(tool.Failed(err))
					return
				}
				sum.Files, sum.Lines, sum.Words = sum.Files+1, sum.Lines+file.Lines, sum.Words+file.Words
				if file.Lines > most {
					most, sum.Longest = file.Lines, name
				}
				if !yield(tool.Partial(file)) || !yield(tool.Progress(100*float64(i+1)/float64(len(names)), name)) {
					return
				}
			}
			yield(tool.Complete(sum))
		}
	})
}

// list returns the files to count, in the order of their names.
func list(ctx context.Context, files fs.FS, suffix string) ([]string, error) {
	var names []string
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && name == ".":
			return err
		case err != nil:
			return fs.SkipDir
		case name != "." && strings.HasPrefix(path.Base(name), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !strings.HasSuffix(name, suffix):
			return nil
		}
		if names = append(names, name); len(names) > maxFiles {
			return tool.Errorf("There are more than %d files. Survey those of one suffix.", maxFiles)
		}
		return nil
	})
	return names, err
}

// count reads one file.
func count(ctx context.Context, files fs.FS, name string) (File, error) {
	f, err := files.Open(name)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	file := File{Path: name}
	reader := bufio.NewReader(f)
	inWord := false
	for {
		r, _, err := reader.ReadRune()
		if errors.Is(err, io.EOF) {
			return file, nil
		}
		if err != nil {
			return file, err
		}
		if r == '\n' {
			file.Lines++
			if err := ctx.Err(); err != nil {
				return file, err
			}
		}
		space := r == ' ' || r == '\t' || r == '\n' || r == '\r'
		if !space && !inWord {
			file.Words++
		}
		inWord = !space
	}
}
