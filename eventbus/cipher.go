package eventbus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// Cipher encrypts the bodies of entries. It is safe for concurrent use. A keyring.Ring is one.
type Cipher interface {
	// Seal encrypts, and returns the id of the key. Place is what the text is bound to: Open needs the same.
	Seal(plain, place []byte) (sealed []byte, key string)
	// Open decrypts what Seal has returned. Its errors name the key.
	Open(sealed, place []byte, key string) ([]byte, error)
}

// ErrNoKeys is the cause of failing to read an entry that is encrypted, where no keys are configured.
var ErrNoKeys = errors.New("the log is encrypted, and there are no keys to read it with")

// headerKey is the id of the key with which the body is encrypted.
const headerKey = "Holdfast-Key"

// seal encrypts the body, if there is a cipher. Ids of messages and calls, and names of steps, are in what is open, which is in
// the body then.
func (b *Bus) seal(m *nats.Msg) {
	if b.opt.Cipher == nil || len(m.Data) == 0 {
		return
	}
	var key string
	m.Data, key = b.opt.Cipher.Seal(m.Data, place(m, laneOf(m.Subject)))
	m.Header[headerKey] = []string{key}
}

// unseal is the body as it was before seal.
func (b *Bus) unseal(m *nats.Msg, body []byte, lane string) ([]byte, error) {
	key := m.Header.Get(headerKey)
	switch {
	case key == "", len(body) == 0: // a checkpoint is read without a body that is elsewhere
		return body, nil
	case b.opt.Cipher == nil:
		return nil, fmt.Errorf("key %q: %w", key, ErrNoKeys)
	}
	return b.opt.Cipher.Open(body, place(m, lane), key)
}

// place binds an entry to its lane: another's can't be put in its stead.
func place(m *nats.Msg, lane string) []byte {
	return []byte(m.Header.Get(headerThread) + "\n" + m.Header.Get(headerRun) + "\n" + lane)
}

func laneOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// readable finds out whether the newest entry can be read, so that a process that has other keys, or none, does not even begin:
// it would fail runs that others can carry on.
func (b *Bus) readable(ctx context.Context) error {
	m, _, err := b.leaderGet(ctx, map[string]any{"last_by_subj": b.prefix + ">"})
	if err != nil || m.Header.Get(headerLarge) != "" {
		return nil //nolint:nilerr // there is none, or nobody can tell at the moment
	}
	if _, err := b.unseal(m, m.Data, laneOf(m.Subject)); err != nil {
		return fmt.Errorf("newest entry: %w", err)
	}
	return nil
}
