package orders_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/examples/orders"
)

func open(t *testing.T, path string) *orders.Store {
	t.Helper()
	store, err := orders.OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func newStore(t *testing.T) *orders.Store {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "orders.db"))
}

func TestNewStoreHasOrdersAndKeepsThem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "folder", "orders.db")
	listed, more, err := open(t, path).List(t.Context(), "")
	if err != nil || more || len(listed) != 5 || listed[0].ID != "ORD-1001" || listed[0].TotalCents != 11400 {
		t.Fatalf("got %+v, %t, %v", listed, more, err)
	}
	if _, err := open(t, path).Refund(t.Context(), "", orders.RefundRequest{OrderID: "ORD-1001", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	order, err := open(t, path).Find(t.Context(), " ord-1001 ")
	if err != nil || order.Status != orders.Refunded || order.RefundedCents != 11400 {
		t.Errorf("after opening again: %+v, %v", order, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

func TestFilesThatAreNoStoreAreRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	garbage, empty, other := filepath.Join(folder, "garbage"), filepath.Join(folder, "empty"), filepath.Join(folder, "other")
	for path, content := range map[string]string{garbage: strings.Repeat("no database ", 5000), empty: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := bbolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{garbage, empty, other, folder, filepath.Join(garbage, "orders.db")} {
		if _, err := orders.OpenStore(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one that names it", path, err)
		}
	}
	if content, err := os.ReadFile(garbage); err != nil || !strings.HasPrefix(string(content), "no database") {
		t.Errorf("the file was changed: %.20q, %v", content, err)
	}
}

func TestRefundMovesTheOrder(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	refund := func(key string, amount *int64) (orders.Refund, error) {
		return store.Refund(t.Context(), key, orders.RefundRequest{OrderID: "ORD-1002", AmountCents: amount, Reason: "scratched"})
	}
	for _, bad := range []int64{0, -5, 32901, 1 << 62} {
		if _, err := refund("bad", &bad); !errors.Is(err, orders.ErrNotAllowed) {
			t.Errorf("%d cents: error %v, want ErrNotAllowed", bad, err)
		}
	}
	first, err := refund("k1", new(int64(900)))
	if err != nil || first.ID != "ORD-1002-R1" || first.LeftCents != 32000 || first.OrderStatus != orders.PartiallyRefunded {
		t.Fatalf("got %+v, %v", first, err)
	}
	if _, err := refund("k2", new(int64(32001))); !errors.Is(err, orders.ErrNotAllowed) {
		t.Errorf("more than is left: error %v, want ErrNotAllowed", err)
	}
	rest, err := refund("k3", nil)
	if err != nil || rest.AmountCents != 32000 || rest.LeftCents != 0 || rest.OrderStatus != orders.Refunded {
		t.Fatalf("got %+v, %v", rest, err)
	}
	if _, err := refund("k4", nil); !errors.Is(err, orders.ErrNotAllowed) {
		t.Errorf("refunded twice: error %v, want ErrNotAllowed", err)
	}
	order, err := store.Find(t.Context(), "ORD-1002")
	if err != nil || order.Status != orders.Refunded || order.RefundedCents != order.TotalCents || len(order.Refunds) != 2 {
		t.Errorf("order %+v, %v", order, err)
	}
	if diff := cmp.Diff([]orders.Refund{first, rest}, order.Refunds); diff != "" {
		t.Errorf("recorded refunds (-want +got):\n%s", diff)
	}
	if _, err := store.Refund(t.Context(), "k5", orders.RefundRequest{OrderID: "ORD-9", Reason: "r"}); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

func TestRepeatedKeyReturnsTheRefundThatWasMade(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	request := orders.RefundRequest{OrderID: "ord-1004", Reason: "broken"}
	first, err := store.Refund(t.Context(), "key", request)
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.Refund(t.Context(), "key", request)
	if err != nil {
		t.Fatalf("second time: %v", err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	for _, other := range []orders.RefundRequest{
		{OrderID: "ORD-1004", Reason: "late"},
		{OrderID: "ORD-1003", Reason: "broken"},
		{OrderID: "ORD-1004", Reason: "broken", AmountCents: new(first.AmountCents)},
	} {
		if _, err := store.Refund(t.Context(), "key", other); !errors.Is(err, orders.ErrKeyConflict) {
			t.Errorf("%+v: error %v, want ErrKeyConflict", other, err)
		}
	}
	if order, err := store.Find(t.Context(), "ORD-1004"); err != nil || len(order.Refunds) != 1 {
		t.Errorf("order %+v, %v", order, err)
	}
}

func TestTwoStoresShareOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.db")
	stores := make([]*orders.Store, 2)
	var opening sync.WaitGroup
	for i := range stores {
		opening.Go(func() {
			var err error
			if stores[i], err = orders.OpenStore(path); err != nil {
				t.Errorf("open at the same time: %v", err)
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	// 40 refunds of one cent, each tried through both stores with the same key.
	var running sync.WaitGroup
	for _, store := range stores {
		for i := range 40 {
			running.Go(func() {
				_, err := store.Refund(t.Context(), fmt.Sprint("key", i), orders.RefundRequest{OrderID: "ORD-1001", AmountCents: new(int64(1)), Reason: "r"})
				if err != nil {
					t.Errorf("refund %d: %v", i, err)
				}
				if _, _, err := store.List(t.Context(), "ada"); err != nil {
					t.Errorf("list: %v", err)
				}
			})
		}
	}
	running.Wait()
	order, err := stores[0].Find(t.Context(), "ORD-1001")
	if err != nil || order.RefundedCents != 40 || len(order.Refunds) != 40 {
		t.Errorf("%d cents in %d refunds, %v; want 40 in 40", order.RefundedCents, len(order.Refunds), err)
	}
}

// worker is the environment variable that makes the test binary a worker on the
// store it names: it refunds one cent after another until it is killed.
const worker = "HOLDFAST_TEST_ORDERS"

func TestMain(m *testing.M) {
	if path := os.Getenv(worker); path != "" {
		os.Exit(refundForever(path))
	}
	os.Exit(m.Run())
}

func refundForever(path string) int {
	store, err := orders.OpenStore(path)
	for i := 0; err == nil; i++ {
		_, err = store.Refund(context.Background(), fmt.Sprintf("%d-%d", os.Getpid(), i), orders.RefundRequest{OrderID: "ORD-1002", AmountCents: new(int64(1)), Reason: "r"})
		if err == nil {
			fmt.Println("refunded") // acknowledged
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestKilledWorkerLosesNoRefundAndBlocksNobody(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.db")
	const workers, acknowledgements = 2, 25
	var running sync.WaitGroup
	acknowledged := make([]int, workers)
	for i := range workers {
		running.Go(func() {
			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), worker+"="+path)
			command.Stderr = os.Stderr
			output, err := command.StdoutPipe()
			if err != nil {
				t.Error(err)
				return
			}
			if err := command.Start(); err != nil {
				t.Error(err)
				return
			}
			// After some acknowledgements it is killed, wherever it is by then.
			lines := bufio.NewScanner(output)
			for lines.Scan() {
				if acknowledged[i]++; acknowledged[i] == acknowledgements {
					if err := command.Process.Kill(); err != nil {
						t.Error(err)
					}
				}
			}
			if err := command.Wait(); err == nil {
				t.Error("the worker was not killed")
			}
		})
	}
	running.Wait()
	order, err := open(t, path).Find(t.Context(), "ORD-1002")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, count := range acknowledged {
		total += count
	}
	// Each worker may have made one refund that it could not acknowledge any more.
	if made := len(order.Refunds); made < total || made > total+workers || order.RefundedCents != int64(made) {
		t.Errorf("%d refunds over %d cents, %d acknowledged", made, order.RefundedCents, total)
	}
}

func TestStoreInUseIsWaitedForAsLongAsTheCallerDoes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.db")
	store := open(t, path)
	db, err := bbolt.Open(path, 0o600, nil) // another process that holds on
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := store.Find(ctx, "ORD-1001"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Find(t.Context(), "ORD-1001"); err != nil {
		t.Errorf("after it let go: %v", err)
	}
}

func TestStoreThatStaysInUseIsGivenUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.db")
	store := open(t, path)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the test is over
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := orders.Agent(store).Tools[0].Call(t.Context(), nil, []byte(`{"order_id":"ORD-1001"}`))
		shown, ok := errors.AsType[*tool.Error](err)
		if !ok || !errors.Is(err, orders.ErrBusy) || !shown.Retryable || time.Since(start) > time.Minute {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

func TestStoreThatHasGoneIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.db")
	store := open(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Refund(t.Context(), "k", orders.RefundRequest{OrderID: "ORD-1001", Reason: "r"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that the file is missing", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there again: %v", err)
	}
}
