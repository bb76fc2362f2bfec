package blobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

func open(t *testing.T, place string, opt Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), place, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func payload(data []byte) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte("json/plain"), "key": []byte("k")}, Data: data}
}

// talk is a conversation of about n bytes. A longer one begins as a shorter one does.
func talk(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, `{"id":"m%d","content":"%x %x"},`, random.Uint32(), random.Uint64(), random.Uint64())
	}
	return b.Bytes()
}

func (s *Store) put(t *testing.T, data []byte) map[string]string {
	t.Helper()
	claims, err := s.Store(converter.StorageDriverStoreContext{Context: t.Context()}, []*commonpb.Payload{payload(data)})
	if err != nil {
		t.Fatal(err)
	}
	return claims[0].ClaimData
}

func (s *Store) get(ctx context.Context, claim map[string]string) (*commonpb.Payload, error) {
	p, err := s.Retrieve(converter.StorageDriverRetrieveContext{Context: ctx}, []converter.StorageDriverClaim{{ClaimData: claim}})
	return p[0], err
}

// counted is a meter.
type counted struct{ stored, fetched, failed int }

func (c *counted) Stored(bytes int, _ time.Duration, err error) { c.stored += bytes; c.fail(err) }

func (c *counted) Fetched(bytes int, _ time.Duration, err error) { c.fetched += bytes; c.fail(err) }

func (c *counted) fail(err error) {
	if err != nil {
		c.failed++
	}
}

// A conversation that grows turn by turn takes about the space of its last turn, though every turn stores all of it; and
// another process reads every turn.
func TestTurnsShareWhatTheyHaveInCommon(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	written := &counted{}
	s := open(t, folder, Options{Meter: written})
	whole := 0
	var claims []map[string]string
	for turn := range 100 {
		data := fmt.Appendf(nil, `{"turn":%d,"outbox":%q,"messages":[%s],"tools":[1,2,3],"end":%d}`, turn, strings.Repeat("x", 13*turn), talk(10_000*turn), turn)
		whole += len(data)
		claims = append(claims, s.put(t, data))
	}
	if written.stored > whole/8 {
		t.Errorf("%d of %d bytes were written", written.stored, whole)
	}
	t.Logf("%d of %d bytes were written", written.stored, whole)
	read := &counted{}
	other := open(t, "file://"+folder, Options{Meter: read})
	for turn, claim := range claims {
		p, err := other.get(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Appendf(nil, `{"turn":%d,"outbox":%q,"messages":[%s],"tools":[1,2,3],"end":%d}`, turn, strings.Repeat("x", 13*turn), talk(10_000*turn), turn)
		if !proto.Equal(p, payload(want)) {
			t.Fatalf("turn %d is read otherwise than it was written", turn)
		}
	}
	if read.fetched < whole || read.failed+written.failed > 0 {
		t.Errorf("metered %+v and %+v", written, read)
	}
}

// What was changed or deleted is an error that says so, and where.
func TestBlobsThatAreDamagedOrGone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	claim := open(t, folder, Options{}).put(t, talk(100_000))
	key := claim[claimDay] + "/" + strings.Fields(claim[claimParts])[1]
	path := filepath.Join(folder, filepath.FromSlash(key))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{"a bit": append([]byte{whole[0] ^ 1}, whole[1:]...), "cut": whole[:len(whole)-1], "empty": {}} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := open(t, folder, Options{}).get(t.Context(), claim)
		if e, ok := errors.AsType[*DamagedError](err); !ok || e.Key != key || e.Place != folder {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, folder, Options{}).get(t.Context(), claim)
	if e, ok := errors.AsType[*MissingError](err); !ok || e.Key != key || !strings.Contains(err.Error(), folder) {
		t.Errorf("gone: %v", err)
	}
}

// flaky is a bucket that is away for a number of requests.
type flaky struct {
	bucket
	away int
}

var errAway = errors.New("away")

func (f *flaky) get(ctx context.Context, key string) ([]byte, error) {
	if f.away--; f.away >= 0 {
		return nil, errAway
	}
	return f.bucket.get(ctx, key)
}

func (f *flaky) put(ctx context.Context, key string, data []byte) error {
	if f.away--; f.away >= 0 {
		return errAway
	}
	return f.bucket.put(ctx, key, data)
}

// A store that is away for a moment is waited for, for as long as a workflow task can wait.
func TestStoreThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), Options{})
		f := &flaky{bucket: s.bucket, away: 5}
		s.bucket = f
		small := talk(1000) // one part
		claim := s.put(t, small)
		s.cache = cache{}
		f.away = 5
		if p, err := s.get(t.Context(), claim); err != nil || !bytes.Equal(p.GetData(), small) {
			t.Errorf("read again: %v", err)
		}
		s.cache, f.away = cache{}, 1000
		began := time.Now()
		if _, err := s.get(t.Context(), claim); !errors.Is(err, errAway) {
			t.Errorf("a store that stays away: %v", err)
		}
		if took := time.Since(began); took != patience {
			t.Errorf("it was waited for for %s", took)
		}
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.get(ctx, claim); !errors.Is(err, errAway) || time.Since(began) != time.Second {
			t.Errorf("a caller that leaves: %v after %s", err, time.Since(began))
		}
	})
}

// A folder that is away altogether, as one on another machine can be, is not taken for one from which something was deleted.
func TestFolderThatIsAway(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "blobs")
	claim := open(t, folder, Options{}).put(t, talk(1000))
	other := open(t, folder, Options{})
	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	_, err := other.get(t.Context(), claim)
	if _, missing := errors.AsType[*MissingError](err); err == nil || missing {
		t.Errorf("got %v", err)
	}
	if _, err := other.Store(converter.StorageDriverStoreContext{Context: t.Context()}, []*commonpb.Payload{payload(talk(2000))}); err == nil {
		t.Error("it was written to")
	}
	if err := os.Rename(folder+"-away", folder); err != nil {
		t.Fatal(err)
	}
	if _, err := other.get(t.Context(), claim); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}

// Every day stores what it refers to, so that an old day can be deleted whole.
func TestADayRefersToItselfAlone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder, Options{})
	day := time.Date(2027, 3, 1, 23, 59, 59, 0, time.UTC)
	s.now = func() time.Time { return day }
	first := s.put(t, talk(200_000))
	day = day.Add(time.Second)
	second := s.put(t, talk(200_000))
	if first[claimDay] != "2027-03-01" || second[claimDay] != "2027-03-02" {
		t.Fatalf("days %q and %q", first[claimDay], second[claimDay])
	}
	if err := os.RemoveAll(filepath.Join(folder, "2027-03-01")); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, folder, Options{}).get(t.Context(), second); err != nil {
		t.Errorf("the second day without the first: %v", err)
	}
}

// Whoever can write a history can have the store read nothing but what is a blob's.
func TestReferencesThatNobodyMade(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "blobs")
	s := open(t, folder, Options{})
	claim := s.put(t, talk(1000))
	name := claim[claimParts]
	tests := map[string]map[string]string{
		"nothing":           nil,
		"a later format":    {claimFormat: "2", claimDay: claim[claimDay], claimSize: claim[claimSize], claimParts: name},
		"a path for a day":  {claimFormat: "1", claimDay: "../..", claimSize: "1", claimParts: name},
		"a path for a part": {claimFormat: "1", claimDay: claim[claimDay], claimSize: "1", claimParts: "../../etc/passwd"},
		"a short name":      {claimFormat: "1", claimDay: claim[claimDay], claimSize: "1", claimParts: "ab"},
		"no size":           {claimFormat: "1", claimDay: claim[claimDay], claimParts: name},
		"a negative size":   {claimFormat: "1", claimDay: claim[claimDay], claimSize: "-1", claimParts: name},
		"too large a size":  {claimFormat: "1", claimDay: claim[claimDay], claimSize: "99999999999", claimParts: name},
		"another size":      {claimFormat: "1", claimDay: claim[claimDay], claimSize: "7", claimParts: name},
	}
	for what, forged := range tests {
		if p, err := s.get(t.Context(), forged); err == nil {
			t.Errorf("%s: read %v", what, p)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]string{
		"":                     "neither the path of a folder nor the URL of a bucket",
		" ":                    "neither the path of a folder nor the URL of a bucket",
		"/tmp/x\n":             "neither the path of a folder nor the URL of a bucket",
		"file://relative/path": "file:///path",
		"file:///x?y=z":        "file:///path",
		"s4://bucket":          "s4",
		"://":                  "missing protocol scheme",
		file:                   "not a directory",
	} {
		if _, err := Open(t.Context(), place, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", place, err, want)
		}
	}
}
