package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	// lockWait bounds how long an operation waits for its turn at the file.
	// An operation holds it for some milliseconds; whoever waits this long
	// waits for a process that is stopped.
	lockWait = 10 * time.Second
	// lockPause is the longest pause between two tries, about the length of an operation.
	lockPause = 10 * time.Millisecond
	// probe asks bbolt for one try at the lock: it gives up at once when the
	// timeout is below its own pause of 50 ms.
	probe = time.Nanosecond
	// maxListed bounds a list of orders.
	maxListed = 50
)

// The buckets of the file: orders by id, and refunds by idempotency key.
var (
	ordersBucket = []byte("orders")
	keysBucket   = []byte("refunds_by_key")
)

// What can be wrong with a request. The texts around them say more.
var (
	ErrNotFound    = errors.New("no such order")
	ErrNotAllowed  = errors.New("refund not possible")
	ErrKeyConflict = errors.New("idempotency key was used for another refund")
	ErrBusy        = errors.New("the store is in use")
)

// Store keeps orders in one file that several processes may share.
//
// The file is opened for each operation and closed after it, because bbolt locks
// it for as long as it is open. There is nothing to close therefore, and a process
// that is killed leaves nothing behind but its last complete transaction. Methods
// may be called concurrently.
type Store struct {
	path string
	// turn lets one operation of this process try for the file at a time, so
	// that many tool calls in one worker do not compete by polling.
	turn chan struct{}
	now  func() time.Time
}

// OpenStore returns the store in the file at path. A file that does not exist is
// made, with its folder and a few orders in it.
func OpenStore(path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open orders %s: %w", path, err)
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("create orders %s: %w", path, err)
	}
	s := &Store{path: path, turn: make(chan struct{}, 1), now: time.Now}
	err = s.view(context.Background(), func(tx *bbolt.Tx) error {
		if tx.Bucket(ordersBucket) == nil || tx.Bucket(keysBucket) == nil {
			return errors.New("the file is not a store of orders")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open orders %s: %w", path, err)
	}
	return s, nil
}

// create makes the file if there is none. It is made complete under another name
// and linked to its own, so that a process that is killed meanwhile, or another
// that does the same, can not leave half a store.
func create(path string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	unfinished, err := os.CreateTemp(folder, filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(unfinished.Name()) //nolint:errcheck // the link, if it was made, is what counts
	if err := unfinished.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(unfinished.Name(), 0o600, nil)
	if err != nil {
		return err
	}
	err = errors.Join(db.Update(fill), db.Close())
	if err != nil {
		return err
	}
	if err := os.Link(unfinished.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func fill(tx *bbolt.Tx) error {
	if _, err := tx.CreateBucket(keysBucket); err != nil {
		return err
	}
	if _, err := tx.CreateBucket(ordersBucket); err != nil {
		return err
	}
	for _, order := range seed() {
		if err := put(tx, ordersBucket, order.ID, order); err != nil {
			return err
		}
	}
	return nil
}

// Find returns the order with the given id. Case and space around it do not matter.
func (s *Store) Find(ctx context.Context, id string) (Order, error) {
	var order Order
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		var err error
		order, err = find(tx, id)
		return err
	})
	return order, err
}

// List returns the orders whose customer's name contains the given text, in any
// case, by id; all of them for an empty text. More tells that the list was cut.
func (s *Store) List(ctx context.Context, customer string) (listed []Order, more bool, err error) {
	wanted := strings.ToLower(strings.TrimSpace(customer))
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(ordersBucket).ForEach(func(_, value []byte) error {
			var order Order
			if err := json.Unmarshal(value, &order); err != nil {
				return err
			}
			if strings.Contains(strings.ToLower(order.Customer), wanted) {
				listed = append(listed, order)
			}
			return nil
		})
	})
	slices.SortFunc(listed, func(a, b Order) int { return cmp.Compare(a.ID, b.ID) })
	if len(listed) > maxListed {
		return listed[:maxListed], true, err
	}
	return listed, false, err
}

// RefundRequest asks for money back. No AmountCents means all that is left.
type RefundRequest struct {
	OrderID     string `json:"order_id"`
	AmountCents *int64 `json:"amount_cents,omitempty"`
	Reason      string `json:"reason"`
}

// recordedRefund is what is kept under an idempotency key.
type recordedRefund struct {
	Request RefundRequest `json:"request"`
	Refund  Refund        `json:"refund"`
}

// Refund refunds an order, and records it under key in the same transaction: a
// request that is repeated with the same key returns the refund that was made
// and changes nothing; another request with that key is ErrKeyConflict. With no
// key every request counts anew.
func (s *Store) Refund(ctx context.Context, key string, request RefundRequest) (Refund, error) {
	var refund Refund
	err := s.update(ctx, func(tx *bbolt.Tx) error {
		request.OrderID = normalize(request.OrderID)
		if recorded := tx.Bucket(keysBucket).Get([]byte(key)); key != "" && recorded != nil {
			var earlier recordedRefund
			if err := json.Unmarshal(recorded, &earlier); err != nil {
				return err
			}
			if !earlier.Request.equal(request) {
				return ErrKeyConflict
			}
			refund = earlier.Refund
			return nil
		}
		order, err := find(tx, request.OrderID)
		if err != nil {
			return err
		}
		refund, err = order.refund(request, s.now().UTC())
		if err != nil {
			return err
		}
		if key != "" {
			if err := put(tx, keysBucket, key, recordedRefund{Request: request, Refund: refund}); err != nil {
				return err
			}
		}
		return put(tx, ordersBucket, order.ID, order)
	})
	return refund, err
}

func (r RefundRequest) equal(other RefundRequest) bool {
	sameAmount := r.AmountCents == nil && other.AmountCents == nil ||
		r.AmountCents != nil && other.AmountCents != nil && *r.AmountCents == *other.AmountCents
	return r.OrderID == other.OrderID && r.Reason == other.Reason && sameAmount
}

// refund moves the order by one refund, or says why it can't be.
func (o *Order) refund(request RefundRequest, at time.Time) (Refund, error) {
	left := o.TotalCents - o.RefundedCents
	if left <= 0 {
		return Refund{}, fmt.Errorf("order %s is already refunded in full: %w", o.ID, ErrNotAllowed)
	}
	amount := left
	if request.AmountCents != nil {
		amount = *request.AmountCents
	}
	switch {
	case amount <= 0:
		return Refund{}, fmt.Errorf("the amount must be above 0 cents: %w", ErrNotAllowed)
	case amount > left:
		return Refund{}, fmt.Errorf("order %s has %d cents left to refund, not %d: %w", o.ID, left, amount, ErrNotAllowed)
	}
	o.RefundedCents += amount
	o.Status = PartiallyRefunded
	if o.RefundedCents == o.TotalCents {
		o.Status = Refunded
	}
	refund := Refund{
		ID:          fmt.Sprintf("%s-R%d", o.ID, len(o.Refunds)+1),
		OrderID:     o.ID,
		AmountCents: amount,
		Reason:      request.Reason,
		At:          at,
		LeftCents:   left - amount,
		OrderStatus: o.Status,
	}
	o.Refunds = append(o.Refunds, refund)
	return refund, nil
}

func normalize(id string) string { return strings.ToUpper(strings.TrimSpace(id)) }

func find(tx *bbolt.Tx, id string) (Order, error) {
	value := tx.Bucket(ordersBucket).Get([]byte(normalize(id)))
	if value == nil {
		return Order{}, ErrNotFound
	}
	var order Order
	err := json.Unmarshal(value, &order)
	return order, err
}

func put(tx *bbolt.Tx, bucket []byte, key string, value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return tx.Bucket(bucket).Put([]byte(key), encoded)
}

// view runs fn on a state of the store; others may read at the same time.
func (s *Store) view(ctx context.Context, fn func(*bbolt.Tx) error) error {
	return s.with(ctx, true, func(db *bbolt.DB) error { return db.View(fn) })
}

// update runs fn alone among all processes. What it changed is on disk when
// update returns nil, and gone when it does not.
func (s *Store) update(ctx context.Context, fn func(*bbolt.Tx) error) error {
	return s.with(ctx, false, func(db *bbolt.DB) error { return db.Update(fn) })
}

func (s *Store) with(ctx context.Context, readOnly bool, fn func(*bbolt.DB) error) error {
	deadline := time.NewTimer(lockWait)
	defer deadline.Stop()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	case <-deadline.C:
		return ErrBusy
	}
	for {
		db, err := bbolt.Open(s.path, 0o600, &bbolt.Options{Timeout: probe, ReadOnly: readOnly, OpenFile: openExisting})
		if err == nil {
			return use(db, fn)
		}
		if !errors.Is(err, bolterrors.ErrTimeout) {
			return err
		}
		// The pause is random so that two waiting workers do not stay in step.
		pause := time.NewTimer(rand.N(lockPause) + time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		case <-deadline.C:
			pause.Stop()
			return ErrBusy
		}
	}
}

// use closes db whatever happens: an open file would lock out everyone.
func use(db *bbolt.DB, fn func(*bbolt.DB) error) (err error) {
	defer func() { err = errors.Join(err, db.Close()) }()
	return fn(db)
}

// openExisting keeps bbolt from making an empty store where the file has gone.
func openExisting(path string, flag int, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag&^os.O_CREATE, mode)
}
