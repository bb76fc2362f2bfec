package researcher

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

const (
	// maxEntries bounds a list: some 30 KiB, a page that a model still reads.
	maxEntries = 500
	// maxListedBytes bounds it where paths are long.
	maxListedBytes = 64 << 10
)

// errTooMany ends a walk that has seen [maxVisited] files.
var errTooMany = errors.New("too many files")

type listInput struct {
	Path string `json:"path,omitempty" jsonschema:"folder to list, relative; everything if absent"`
}

// Entry is a file, or a folder, whose path ends with a slash.
type Entry struct {
	Path  string `json:"path"`
	Bytes *int64 `json:"bytes,omitempty"`
}

// Listing is the result of list_files.
type Listing struct {
	Entries []Entry `json:"entries"`
	// Truncated says that there is more than was listed.
	Truncated bool `json:"truncated,omitempty"`
}

func listFiles(f folder) tool.Tool {
	return tool.New(tool.Spec{
		Name: "list_files",
		Description: "List the files in a folder and in the folders below it, with their sizes, level by level. " +
			"Folders end with a slash.",
		Effect:  tool.ReadOnly,
		Timeout: toolTimeout,
	}, func(ctx context.Context, _ *tool.Call, in listInput) (Listing, error) {
		name, err := relative(in.Path)
		if err != nil {
			return Listing{}, err
		}
		root, err := f.open()
		if err != nil {
			return Listing{}, err
		}
		defer root.Close() //nolint:errcheck // only read from
		info, err := look(root, name)
		if err != nil {
			return Listing{}, explain(name, err)
		}
		if !info.IsDir() {
			return Listing{}, tool.Errorf("%q is not a folder.", name)
		}
		listing := Listing{Entries: []Entry{}}
		size := 0
		for found, err := range walk(ctx, root, name) {
			size += len(found.path)
			if errors.Is(err, errTooMany) || len(listing.Entries) == maxEntries || size > maxListedBytes {
				listing.Truncated = true
				break
			}
			if err != nil {
				return Listing{}, explain(name, err)
			}
			if found.entry.IsDir() {
				listing.Entries = append(listing.Entries, Entry{Path: found.path + "/"})
				continue
			}
			entry := Entry{Path: found.path}
			if info, err := found.entry.Info(); err == nil {
				entry.Bytes = new(info.Size())
			}
			listing.Entries = append(listing.Entries, entry)
		}
		return listing, nil
	})
}
