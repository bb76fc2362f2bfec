// Package blobs keeps what is too large for Temporal's histories somewhere else: in a folder that workers and gateways
// share, or in an object store. It is a storage driver of Temporal's SDK, which puts a reference into the history in place
// of every payload above a threshold, and puts the payload back before anybody sees it:
//
//	store, err := blobs.Open(ctx, "/var/lib/holdfast/blobs", blobs.Options{})
//	…
//	defer store.Close()
//	options.ExternalStorage = store.Storage()
//
// # What is stored
//
// A payload as the data converter made it, so that what is encrypted in histories is encrypted here. It is cut into parts
// where its content says so ([split]), and each part is stored under its SHA-256. The conversation of a thread is handed
// on with every turn and differs from the last one in its end: the parts that both have are stored once. (Encryption gives
// the same text other bytes each time, and then every turn stores all of it.)
//
// # What holds
//
//   - A reference is given to Temporal when all parts of its payload are written; in a folder that means on the disk.
//   - A part is read as it was written: another content than its name says is a [DamagedError].
//   - A part that is not there is a [MissingError]. Whatever else keeps the store from answering is tried again, within
//     patience; what is not done by then is an error that Temporal tries again: the workflow task, or the activity.
//   - Nothing is ever deleted or changed. Keys begin with the day on which they were written (UTC), and a payload refers to
//     parts of its own day alone, so that days which are older than the longest run, the longest pause and the namespace's
//     retention together may be deleted whole.
package blobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const (
	// DriverName is recorded in histories with every reference.
	DriverName = "holdfast"
	driverType = "holdfast.blobs"

	// DefaultThreshold is from how many bytes on a payload is stored here. Temporal refuses 2 MiB, and suggests to continue
	// as new at 4 MiB of history.
	DefaultThreshold = 128 << 10

	// patience is how long a part is tried for. A workflow task and a heartbeat have 5 s for everything.
	patience = 3 * time.Second
	// parallel is how many parts of one payload are on their way at once.
	parallel = 8
	// cacheSize bounds the parts that are kept in memory, in bytes. Who stores a conversation reads it again soon.
	cacheSize = 64 << 20
	// maxKnown bounds how many parts are known to be stored. More are written again, which changes nothing.
	maxKnown = 1 << 16

	dayLayout = time.DateOnly
)

// Members of a reference, which are recorded in histories. claimFormat is of them all; another value is of a later version.
const (
	claimFormat = "format"
	claimDay    = "day"
	claimSize   = "size"  // bytes of the payload
	claimParts  = "parts" // SHA-256 of each part in hex, in their order, separated by spaces

	formatParts = "1"
)

// Options configure a store. The zero value is good.
type Options struct {
	// Threshold is from how many bytes on a payload is stored. Default DefaultThreshold.
	Threshold int
	// Meter is told what the store does. Nil tells nobody.
	Meter Meter
}

// Meter counts what a store does. Its methods are called concurrently.
type Meter interface {
	// Stored is called for each payload that was to be stored: the bytes that had to be written for it, how long it took,
	// and what came of it.
	Stored(bytes int, took time.Duration, err error)
	// Fetched is called for each payload that was to be read, and is told its bytes.
	Fetched(bytes int, took time.Duration, err error)
}

// Store is where large payloads are. It is safe for concurrent use.
type Store struct {
	place  string // for people
	bucket bucket
	opt    Options
	now    func() time.Time

	mu    sync.Mutex
	day   string // of known
	known map[string]struct{}
	cache cache
}

var _ converter.StorageDriver = (*Store)(nil)

// bucket is what a store needs of a place.
type bucket interface {
	// get returns errMissing if there is no such key.
	get(ctx context.Context, key string) ([]byte, error)
	// put is done when what it wrote survives a crash.
	put(ctx context.Context, key string, data []byte) error
	close() error
}

var errMissing = errors.New("there is no such blob")

// MissingError says that a part of a payload is not in the store.
type MissingError struct{ Key, Place string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("blob %s is not in %s: either this process uses another store than the one that wrote it, or it was deleted while a history refers to it", e.Key, e.Place)
}

// DamagedError says that a part of a payload is not what was written.
type DamagedError struct{ Key, Place string }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("blob %s in %s does not have the content that its name says", e.Key, e.Place)
}

// Storage is the configuration of the SDK's clients and workers that has them use the store.
func (s *Store) Storage() converter.ExternalStorage {
	return converter.ExternalStorage{Drivers: []converter.StorageDriver{s}, PayloadSizeThreshold: s.opt.Threshold}
}

// Close frees what the store holds.
func (s *Store) Close() error { return s.bucket.close() }

// Name implements converter.StorageDriver.
func (s *Store) Name() string { return DriverName }

// Type implements converter.StorageDriver.
func (s *Store) Type() string { return driverType }

// Store implements converter.StorageDriver.
func (s *Store) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	claims := make([]converter.StorageDriverClaim, len(payloads))
	group, inner := errgroup.WithContext(ctx.Context)
	for i, p := range payloads {
		group.Go(func() error {
			return ctx.GetLimiter().Permit(inner, p, func() (err error) {
				claims[i], err = s.store(inner, p)
				return err
			})
		})
	}
	return claims, group.Wait()
}

// Retrieve implements converter.StorageDriver.
func (s *Store) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	payloads := make([]*commonpb.Payload, len(claims))
	group, inner := errgroup.WithContext(ctx.Context)
	for i, claim := range claims {
		group.Go(func() error {
			return ctx.GetLimiter().Permit(inner, claim, func() (err error) {
				payloads[i], err = s.fetch(inner, claim.ClaimData)
				return err
			})
		})
	}
	return payloads, group.Wait()
}

// Resolve returns the payload that p refers to, or p itself if it is no reference. It is for histories that are read event
// by event, which the SDK leaves as they are.
func (s *Store) Resolve(ctx context.Context, p *commonpb.Payload) (*commonpb.Payload, error) {
	ref := new(sdkpb.ExternalStorageReference)
	m := p.GetMetadata()
	if string(m[converter.MetadataEncoding]) != converter.MetadataEncodingProtoJSON || string(m[converter.MetadataMessageType]) != string(ref.ProtoReflect().Descriptor().FullName()) {
		return p, nil
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(p.GetData(), ref); err != nil {
		return nil, fmt.Errorf("read the reference of a large payload: %w", err)
	}
	if ref.GetDriverName() != DriverName {
		return nil, fmt.Errorf("a large payload is in the store %q, which is not one of ours", ref.GetDriverName())
	}
	return s.fetch(ctx, ref.GetClaimData())
}

func (s *Store) store(ctx context.Context, p *commonpb.Payload) (converter.StorageDriverClaim, error) {
	began, written := time.Now(), 0
	claim, err := s.write(ctx, p, &written)
	if s.opt.Meter != nil {
		s.opt.Meter.Stored(written, time.Since(began), err)
	}
	return claim, err
}

func (s *Store) write(ctx context.Context, p *commonpb.Payload, written *int) (claim converter.StorageDriverClaim, err error) {
	data, err := (proto.MarshalOptions{Deterministic: true}).Marshal(p)
	if err != nil {
		return claim, fmt.Errorf("encode a large payload: %w", err)
	}
	day := s.now().UTC().Format(dayLayout)
	var names []string
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for part := range split(data) {
		sum := sha256.Sum256(part)
		name := hex.EncodeToString(sum[:])
		names = append(names, name)
		key := day + "/" + name
		if s.has(day, key) {
			continue
		}
		*written += len(part)
		group.Go(func() error {
			if err := s.persist(inner, "write", key, func(ctx context.Context) error { return s.bucket.put(ctx, key, part) }); err != nil {
				return err
			}
			s.note(day, key, part)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return claim, err
	}
	claim.ClaimData = map[string]string{claimFormat: formatParts, claimDay: day, claimSize: strconv.Itoa(len(data)), claimParts: strings.Join(names, " ")}
	return claim, nil
}

func (s *Store) fetch(ctx context.Context, claim map[string]string) (*commonpb.Payload, error) {
	began, read := time.Now(), 0
	p, err := s.read(ctx, claim, &read)
	if s.opt.Meter != nil {
		s.opt.Meter.Fetched(read, time.Since(began), err)
	}
	return p, err
}

func (s *Store) read(ctx context.Context, claim map[string]string, read *int) (*commonpb.Payload, error) {
	size, keys, err := keysOf(claim)
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, len(keys))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, key := range keys {
		group.Go(func() (err error) {
			parts[i], err = s.part(inner, key)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	data := make([]byte, 0, size)
	for _, part := range parts {
		data = append(data, part...)
	}
	*read = len(data)
	p := new(commonpb.Payload)
	if len(data) != size {
		return nil, fmt.Errorf("a large payload in %s has %d bytes, and its reference says %d", s.place, len(data), size)
	}
	if err := proto.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("read a large payload in %s: %w", s.place, err)
	}
	return p, nil
}

// keysOf reads a reference. It may come from anywhere, so that nothing but what Store makes is taken.
func keysOf(claim map[string]string) (size int, keys []string, err error) {
	if f := claim[claimFormat]; f != formatParts {
		return 0, nil, fmt.Errorf("the reference of a large payload has format %q, and this version knows %q", f, formatParts)
	}
	day := claim[claimDay]
	if _, err := time.Parse(dayLayout, day); err != nil {
		return 0, nil, fmt.Errorf("the reference of a large payload has no day: %w", err)
	}
	if size, err = strconv.Atoi(claim[claimSize]); err != nil || size < 0 || size > maxSize {
		return 0, nil, fmt.Errorf("the reference of a large payload has the size %q", claim[claimSize])
	}
	for name := range strings.FieldsSeq(claim[claimParts]) {
		if raw, err := hex.DecodeString(name); err != nil || len(raw) != sha256.Size {
			return 0, nil, fmt.Errorf("the reference of a large payload has a part %q", name)
		}
		keys = append(keys, day+"/"+name)
	}
	return size, keys, nil
}

// maxSize bounds what a reference may ask for, in bytes, far above what a workflow gives a step.
const maxSize = 1 << 30

// part returns a part, which the caller may not change.
func (s *Store) part(ctx context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	part, ok := s.cache.get(key)
	s.mu.Unlock()
	if ok {
		return part, nil
	}
	err := s.persist(ctx, "read", key, func(ctx context.Context) (err error) {
		part, err = s.bucket.get(ctx, key)
		return err
	})
	if errors.Is(err, errMissing) {
		return nil, &MissingError{Key: key, Place: s.place}
	}
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(part); !strings.HasSuffix(key, hex.EncodeToString(sum[:])) {
		return nil, &DamagedError{Key: key, Place: s.place}
	}
	s.mu.Lock()
	s.cache.put(key, part)
	s.mu.Unlock()
	return part, nil
}

// persist does something until it succeeds, within patience. What is missing may be on its way through the caches of a
// network file system.
func (s *Store) persist(ctx context.Context, what, key string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		err := do(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s blob %s in %s: %w", what, key, s.place, err)
		case <-time.After(wait):
		}
	}
}

// has reports whether a part is known to be stored.
func (s *Store) has(day, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.known[key]
	return known && s.day == day
}

// note remembers a part that was stored, on a day.
func (s *Store) note(day, key string, part []byte) {
	part = append([]byte(nil), part...) // of a payload that is not to be kept
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.day != day || len(s.known) >= maxKnown {
		s.day, s.known = day, map[string]struct{}{}
	}
	s.known[key] = struct{}{}
	s.cache.put(key, part)
}
