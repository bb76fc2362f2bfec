package blobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Open opens the store at a place: the path of a folder, which is made if need be, the same as file:///path, or the URL of
// a bucket as gocloud.dev/blob takes it, such as s3://bucket?region=eu-west-1. A program knows the kinds of URLs whose
// drivers it imports (gocloud.dev/blob/s3blob). All workers and gateways of a namespace need the same store.
//
// It looks at the place, and does not wait for a bucket that does not answer.
func Open(ctx context.Context, place string, opt Options) (*Store, error) {
	if opt.Threshold == 0 {
		opt.Threshold = DefaultThreshold
	}
	s := &Store{opt: opt, now: time.Now}
	path, folder, err := folderOf(place)
	switch {
	case err != nil:
		return nil, err
	case folder:
		s.place, s.bucket, err = path, folderBucket{path}, os.MkdirAll(path, 0o700)
		if err != nil {
			return nil, fmt.Errorf("folder for large payloads: %w", err)
		}
		return s, nil
	}
	b, err := blob.OpenBucket(ctx, place)
	if err != nil {
		return nil, fmt.Errorf("bucket for large payloads: %w", err)
	}
	s.place, s.bucket = place, cloudBucket{b}
	if u, err := url.Parse(place); err == nil {
		s.place = u.Scheme + "://" + u.Host + u.Path
	}
	return s, nil
}

// folderOf tells the path of a folder from a URL, and refuses what is neither.
func folderOf(place string) (path string, folder bool, err error) {
	if strings.TrimSpace(place) != place || place == "" || strings.ContainsFunc(place, unicode.IsControl) {
		return "", false, fmt.Errorf("%q is neither the path of a folder nor the URL of a bucket", place)
	}
	if !strings.Contains(place, "://") {
		path, err = filepath.Abs(place)
		return path, true, err
	}
	u, err := url.Parse(place)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("bucket for large payloads: %w", err)
	case u.Scheme != "file":
		return "", false, nil
	case u.Host != "" || u.RawQuery != "" || !filepath.IsAbs(filepath.FromSlash(u.Path)):
		return "", false, fmt.Errorf("%q: the URL of a folder is file:///path", place)
	}
	return filepath.FromSlash(u.Path), true, nil
}

// folderBucket keeps each blob in a file. There is a library for that, which does not bring what it wrote to the disk:
// after a loss of power a history could refer to what is not there.
type folderBucket struct{ root string }

func (b folderBucket) path(key string) string { return filepath.Join(b.root, filepath.FromSlash(key)) }

func (b folderBucket) get(_ context.Context, key string) ([]byte, error) {
	data, err := os.ReadFile(b.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(b.root); err != nil {
			return nil, err // all of it is away
		}
		return nil, errMissing
	}
	return data, err
}

func (b folderBucket) put(_ context.Context, key string, data []byte) (err error) {
	path := b.path(key)
	if old, err := os.Stat(path); err == nil && old.Size() == int64(len(data)) {
		return nil // it has its name since it was whole
	}
	folder := filepath.Dir(path)
	if err := os.Mkdir(folder, 0o700); err == nil {
		err = syncFolder(b.root)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // nobody reads it
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(folder)
}

func (folderBucket) close() error { return nil }

// syncFolder brings the names in a folder to the disk, where that can be asked for.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		err = nil // not on this system
	}
	return errors.Join(err, f.Close())
}

// cloudBucket keeps blobs in an object store.
type cloudBucket struct{ *blob.Bucket }

func (b cloudBucket) get(ctx context.Context, key string) ([]byte, error) {
	data, err := b.ReadAll(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, errMissing
	}
	return data, err
}

func (b cloudBucket) put(ctx context.Context, key string, data []byte) error {
	return b.WriteAll(ctx, key, data, &blob.WriterOptions{ContentType: "application/octet-stream"})
}

func (b cloudBucket) close() error { return b.Close() }
