package workflows_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/workflows"
)

// Runs that wait for workers are served in turns of their tenants: one that has many waiting does not keep the next one
// from its first.
func TestTenantsWaitInTurns(t *testing.T) {
	t.Parallel()
	const many = 30
	tc := temporalServer(t, "--dynamic-config-value", "matching.enableFairness=true")
	nc, err := eventbus.Connect(t.Context(), eventbustest.Start(t), "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	bus, err := eventbus.Open(t.Context(), nc, eventbus.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	runs := workflows.NewClient(tc)
	start := func(tenant string) eventbus.RunKey {
		key := eventbus.RunKey{Tenant: tenant, Thread: rand.Text(), Run: "r1"}
		started, err := runs.Start(t.Context(), tenant, "clerk", t.Name(), "d", &agui.RunAgentInput{
			ThreadID: agui.ThreadID(key.Thread), RunID: "r1", Messages: []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text(tenant)}},
		})
		if err != nil || !started {
			t.Fatalf("start: %t, %v", started, err)
		}
		return key
	}
	var keys []eventbus.RunKey
	for range many {
		keys = append(keys, start("crowd"))
	}
	keys = append(keys, start("single"))

	var mu sync.Mutex
	var served []string
	asked := scripted(func(_ context.Context, req model.Request, say func(model.Delta) bool) error {
		mu.Lock()
		served = append(served, req.Messages[0].Content.Text())
		mu.Unlock()
		_ = say(model.Delta{Text: "Yes."}) && say(model.Delta{Finish: model.FinishStop})
		return nil
	})
	a := agent.Agent{Name: "clerk"}
	w := worker.New(tc, t.Name(), worker.Options{
		Identity: "test", MaxConcurrentActivityExecutionSize: 1, DisableEagerActivities: true, DeadlockDetectionTimeout: time.Minute,
	})
	workflows.NewRunner([]agent.Agent{a}).Register(w)
	activities.NewSet(bus, []agent.Agent{a}, map[string]model.Model{"": asked}, quiet).Register(w)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	for _, key := range keys {
		untilEnd(t, bus, key)
	}
	mu.Lock()
	defer mu.Unlock()
	if at := slices.Index(served, "single"); len(served) != many+1 || at < 0 || at > many/2 {
		t.Errorf("the tenant with one run was served as number %d of %d: %s", at+1, len(served), fmt.Sprint(served))
	}
}

func untilEnd(t *testing.T, bus *eventbus.Bus, key eventbus.RunKey) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := bus.Follow(key, 0)
	defer r.Close()
	for {
		_, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
