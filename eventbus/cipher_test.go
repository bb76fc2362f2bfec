package eventbus

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// masked is a cipher for tests: it hides, and knows its place.
type masked struct{ key string }

var errMask = errors.New("another mask")

func (m masked) Seal(plain, place []byte) (sealed []byte, key string) {
	sum := sha256.Sum256(append([]byte(m.key), place...))
	sealed = append(sum[:], plain...)
	for i := range plain {
		sealed[len(sum)+i] ^= sum[i%len(sum)] | 0x80
	}
	return sealed, m.key
}

func (m masked) Open(sealed, place []byte, key string) ([]byte, error) {
	sum := sha256.Sum256(append([]byte(m.key), place...))
	if key != m.key || len(sealed) < len(sum) || !bytes.Equal(sealed[:len(sum)], sum[:]) {
		return nil, errMask
	}
	plain := bytes.Clone(sealed[len(sum):])
	for i := range plain {
		plain[i] ^= sum[i%len(sum)] | 0x80
	}
	return plain, nil
}

// With a cipher, whatever entries say is hidden, large ones and what is open included, and everything else is as without.
func TestEntriesAreEncrypted(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	plain := openBus(t, srv.URL(), Options{})
	write(t, plain, writing(1), delta("before"))
	b := openBus(t, srv.URL(), Options{Cipher: masked{"k"}})
	live := follow(t, openBus(t, srv.URL(), Options{Cipher: masked{"k"}}), testRun, 0)
	write(t, b, writing(2), delta("hidden"), sized(t, 1_500_000), &agui.TextMessageStart{MessageID: "hidden-id", Role: new(agui.RoleAssistant)})
	next := openLane(t, b, writing(3))
	if open := next.Previous().Open.Items; len(open) != 1 || open[0].ID != "hidden-id" {
		t.Errorf("the next writer finds %+v open", open)
	}
	appendAll(t, next, &agui.TextMessageEnd{MessageID: "hidden-id"}, finished(testRun))
	if err := next.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for name, entries := range map[string][]*Entry{"live": readAll(t, live), "history": stored(t, b, testRun)} {
		events := 0
		for _, e := range entries {
			events += len(e.Events)
		}
		if events != 6 {
			t.Errorf("%s: %d events, want 6", name, events)
		}
	}
	m, _, err := b.leaderGet(testContext(t), map[string]any{"seq": 2})
	if err != nil || strings.Contains(string(m.Data), "hidden") || strings.Contains(m.Header.Get(headerOpen), "hidden") || m.Header.Get(headerKey) != "k" {
		t.Errorf("stored: %v %q, %v", m.Header, m.Data, err)
	}
	for name, opt := range map[string]Options{"no keys": {}, "another": {Cipher: masked{"other"}}} {
		_, err := Open(testContext(t), connect(t, srv.URL()), opt)
		if want := map[string]error{"no keys": ErrNoKeys, "another": errMask}[name]; !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
