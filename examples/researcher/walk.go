package researcher

import (
	"context"
	"io/fs"
	"iter"
	"os"
	"path"
)

// maxVisited bounds how many files and folders one call looks at, so that a call on
// a huge tree ends in seconds.
const maxVisited = 50_000

// found is a file or a folder below the root.
type found struct {
	path  string
	entry fs.DirEntry
}

// walk yields what is below name, level by level and each folder in the order of
// names, so that a caller who stops early has seen the top of the tree. Hidden
// names and symbolic links are passed over: a link leads to what is listed
// anyway, or out, or in a circle. A folder that can't be read is passed over,
// too, unless it is name itself. After an error nothing more is yielded.
func walk(ctx context.Context, root *os.Root, name string) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		visited := 0
		for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
			if err := ctx.Err(); err != nil {
				yield(found{}, err)
				return
			}
			entries, err := fs.ReadDir(root.FS(), queue[0])
			if err != nil {
				if queue[0] == name {
					yield(found{}, err)
					return
				}
				continue
			}
			for _, entry := range entries {
				if hidden(entry.Name()) || entry.Type()&fs.ModeSymlink != 0 {
					continue
				}
				if visited++; visited > maxVisited {
					yield(found{}, errTooMany)
					return
				}
				below := found{path: path.Join(queue[0], entry.Name()), entry: entry}
				if entry.IsDir() {
					queue = append(queue, below.path)
				}
				if !yield(below, nil) {
					return
				}
			}
		}
	}
}
