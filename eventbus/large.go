package eventbus

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// largeTimeout bounds the storing or reading of one large entry of up to MaxEvent bytes.
const largeTimeout = 30 * time.Second

// largeName names the object of a body by its run and its content.
func largeName(m *nats.Msg) string {
	sum := sha256.Sum256(m.Data)
	return m.Subject + "." + hex.EncodeToString(sum[:])
}

// store moves the body into the object bucket. The name is the content's, so that a retry makes no second object.
func (b *Bus) store(ctx context.Context, m *nats.Msg) error {
	name := largeName(m)
	err := retry(ctx, func(ctx context.Context) error {
		o, err := b.objectStore(ctx)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, largeTimeout)
		defer cancel()
		if _, err := o.PutBytes(ctx, name, m.Data); err != nil {
			b.forgetObjects()
			return unavailable("store large entry", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.Data = nil
	m.Header[headerLarge] = []string{name}
	return nil
}

// load reads the body of a large entry.
func (b *Bus) load(ctx context.Context, name string) ([]byte, error) {
	o, err := b.objectStore(ctx)
	if err != nil {
		return nil, err
	}
	lctx, cancel := context.WithTimeout(ctx, largeTimeout)
	defer cancel()
	data, err := o.GetBytes(lctx, name)
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return nil, b.missing(ctx, name)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	b.forgetObjects()
	return nil, unavailable("object "+name, err)
}

// missing asks the leader about an object that a replica doesn't know: it may be behind.
func (b *Bus) missing(ctx context.Context, name string) error {
	stream := "OBJ_" + b.large
	request := map[string]any{"last_by_subj": "$O." + b.large + ".M." + base64.URLEncoding.EncodeToString([]byte(name))}
	gone, err := b.lost(ctx, stream, request)
	if err == nil && !gone {
		var m *nats.Msg
		var info jetstream.ObjectInfo
		if m, _, err = b.leaderGetFrom(ctx, stream, request); err == nil {
			err = json.Unmarshal(m.Data, &info)
		}
		gone = err == nil && info.Deleted
	}
	switch {
	case err != nil:
		return unavailable("object "+name, err)
	case gone:
		return fmt.Errorf("object %s: %w", name, ErrGone)
	}
	return unavailable("object "+name, errBehind)
}

// objectStore returns the bucket for large entries and makes it on first use.
func (b *Bus) objectStore(ctx context.Context) (jetstream.ObjectStore, error) {
	b.mu.Lock()
	o := b.objects
	b.mu.Unlock()
	if o != nil {
		return o, nil
	}
	ctx, cancel := b.request(ctx)
	defer cancel()
	o, err := b.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: b.large, Description: "Holdfast entries above the payload limit", Replicas: b.opt.Replicas, TTL: b.opt.MaxAge,
	})
	if err != nil {
		return nil, unavailable("object bucket "+b.large, err)
	}
	b.mu.Lock()
	b.objects = o
	b.mu.Unlock()
	return o, nil
}

// forgetObjects has the bucket looked up, or made, again: it may have gone with the log.
func (b *Bus) forgetObjects() {
	b.mu.Lock()
	b.objects = nil
	b.mu.Unlock()
}
