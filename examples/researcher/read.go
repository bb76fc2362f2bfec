package researcher

import (
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

const (
	defaultLines = 200
	maxLines     = 2000
	// maxReadBytes bounds what one call returns: about 16,000 tokens.
	maxReadBytes = 64 << 10
	// maxLineRunes cuts lines that are not written for people.
	maxLineRunes = 2000
)

type readInput struct {
	Path      string `json:"path" jsonschema:"file to read, relative"`
	StartLine *int   `json:"start_line,omitempty" jsonschema:"first line to read, counted from 1; 1 if absent"`
	MaxLines  *int   `json:"max_lines,omitempty" jsonschema:"how many lines to read, at most 2000; 200 if absent"`
}

// Excerpt is the result of read_file.
type Excerpt struct {
	Path       string `json:"path"`
	StartLine  int    `json:"start_line"`
	EndLine    int    `json:"end_line"` // the last one in Text
	TotalLines int    `json:"total_lines"`
	Text       string `json:"text"`
}

func readFile(f folder) tool.Tool {
	return tool.New(tool.Spec{
		Name:        "read_file",
		Description: "Read lines of a text file. The result tells how many there are in all.",
		Effect:      tool.ReadOnly,
		Timeout:     toolTimeout,
	}, func(_ context.Context, _ *tool.Call, in readInput) (Excerpt, error) {
		start, count := 1, defaultLines
		if in.StartLine != nil {
			start = *in.StartLine
		}
		if in.MaxLines != nil {
			count = min(*in.MaxLines, maxLines)
		}
		if start < 1 || count < 1 {
			return Excerpt{}, tool.Errorf("start_line and max_lines must be at least 1")
		}
		name, err := relative(in.Path)
		if err != nil {
			return Excerpt{}, err
		}
		root, err := f.open()
		if err != nil {
			return Excerpt{}, err
		}
		defer root.Close() //nolint:errcheck // only read from
		text, err := readText(root, name)
		if err != nil {
			return Excerpt{}, explain(name, err)
		}
		all := lines(text)
		if start > max(len(all), 1) {
			return Excerpt{}, tool.Errorf("%q has only %d lines.", name, len(all))
		}
		excerpt := Excerpt{Path: name, StartLine: start, EndLine: start - 1, TotalLines: len(all)}
		var out strings.Builder
		for _, line := range all[start-1 : min(start-1+count, len(all))] {
			line = shorten(line, maxLineRunes)
			if out.Len()+len(line)+1 > maxReadBytes && excerpt.EndLine >= start {
				break
			}
			out.WriteString(line)
			out.WriteByte('\n')
			excerpt.EndLine++
		}
		excerpt.Text = out.String()
		return excerpt, nil
	})
}
