package researcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

const (
	// maxFileBytes bounds the files that are read: larger ones are data, not
	// something to quote from.
	maxFileBytes = 8 << 20
	// maxPathBytes is what operating systems accept.
	maxPathBytes = 4096
	// sniffBytes is how much of a file decides whether it is text; git looks
	// at as much.
	sniffBytes = 8000
)

// folder is what the tools may see. It is opened anew for every call, so that a
// folder that was replaced meanwhile is seen as it is now.
type folder string

// open returns the root beneath which everything happens. The operating system
// refuses any path that leads out of it, over ".." as well as over a symbolic link.
func (f folder) open() (*os.Root, error) {
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, &tool.Error{Message: "The folder can't be read just now.", Retryable: true, Err: err}
	}
	return root, nil
}

// relative checks a path that a model made up and returns it clean. Nothing with a
// leading dot is served, because that is where repositories, caches and secrets are.
func relative(name string) (string, error) {
	switch {
	case name == "":
		return ".", nil
	case len(name) > maxPathBytes:
		return "", tool.Errorf("path is longer than %d bytes", maxPathBytes)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return "", tool.Errorf("path has bytes in it that no file name has")
	case path.IsAbs(name):
		return "", tool.Errorf("path %q must be relative to the folder, as list_files shows it", name)
	}
	clean := path.Clean(name)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", tool.Errorf("path %q is outside of the folder", name)
	}
	for part := range strings.SplitSeq(clean, "/") {
		if hidden(part) {
			return "", tool.Errorf("path %q is hidden and is not served", name)
		}
	}
	return clean, nil
}

func hidden(name string) bool { return name != "." && strings.HasPrefix(name, ".") }

// look returns what is at a path. Symbolic links are not followed, wherever they
// lead: they are not listed either, and one could lead to what is hidden.
func look(root *os.Root, name string) (info fs.FileInfo, err error) {
	for end := 0; end < len(name); {
		end++
		if next := strings.IndexByte(name[end:], '/'); next >= 0 {
			end += next
		} else {
			end = len(name)
		}
		info, err = root.Lstat(name[:end])
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, tool.Errorf("%q is a link, and links are not followed.", name[:end])
		}
	}
	return info, nil
}

// explain puts the error of an operation on a path in words for the model. The
// operating system's own stay in the log.
func explain(name string, err error) error {
	if _, ok := errors.AsType[*tool.Error](err); ok || err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	message := "%q can't be read."
	if errors.Is(err, fs.ErrNotExist) {
		message = "There is no %q in the folder. list_files shows what there is."
	}
	return &tool.Error{Message: fmt.Sprintf(message, name), Err: err}
}

// errBinary and errTooLarge are reasons to pass over a file in a search.
var (
	errBinary   = errors.New("binary file")
	errTooLarge = errors.New("file too large")
)

// readText returns the content of a regular text file as valid UTF-8.
func readText(root *os.Root, name string) (string, error) {
	// Only a regular file is opened: opening a pipe would wait for its writer.
	// O_NONBLOCK is for the moment between the look and the opening.
	if info, err := look(root, name); err != nil {
		return "", err
	} else if err := readable(name, info); err != nil {
		return "", err
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if err := readable(name, info); err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > maxFileBytes: // it grew
		return "", tooLarge(name)
	case bytes.IndexByte(content[:min(len(content), sniffBytes)], 0) >= 0:
		return "", &tool.Error{Message: fmt.Sprintf("%q is not a text file.", name), Err: errBinary}
	}
	content = bytes.ReplaceAll(content, []byte{0}, []byte(string(utf8.RuneError)))
	return strings.ToValidUTF8(string(content), string(utf8.RuneError)), nil
}

func readable(name string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return tool.Errorf("%q is a folder. list_files shows what is in it.", name)
	case !info.Mode().IsRegular():
		return tool.Errorf("%q is not a file.", name)
	case info.Size() > maxFileBytes:
		return tooLarge(name)
	}
	return nil
}

func tooLarge(name string) error {
	return &tool.Error{Message: fmt.Sprintf("%q has more than %d bytes.", name, maxFileBytes), Err: errTooLarge}
}

// lines splits text at line ends of any kind, without an empty last one.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	split := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range split {
		split[i] = strings.TrimSuffix(line, "\r")
	}
	return split
}

// shorten cuts a line at limit runes, visibly.
func shorten(line string, limit int) string {
	if len(line) <= limit {
		return line
	}
	count := 0
	for i := range line {
		if count == limit {
			return line[:i] + "…"
		}
		count++
	}
	return line
}
