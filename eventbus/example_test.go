package eventbus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

func Example() {
	ctx := context.Background()
	nc, err := eventbus.Connect(ctx, "nats://127.0.0.1:4222", "example", slog.Default())
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	bus, err := eventbus.Open(ctx, nc, eventbus.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()

	run := eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "r1"}
	lane, err := bus.OpenLane(ctx, eventbus.LaneConfig{
		Run: run, Lane: eventbus.MainLane, Execution: "01997d2a", Writer: "turn-1",
		Generation: eventbus.Generation{Start: 1764498600000000000, Number: 1, Attempt: 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = lane.Append(ctx,
		&agui.RunStarted{ThreadID: "t1", RunID: "r1"},
		&agui.TextMessageStart{MessageID: "m1", Role: new(agui.RoleAssistant)},
		&agui.TextMessageContent{MessageID: "m1", Delta: "Hello"},
		&agui.TextMessageEnd{MessageID: "m1"},
		&agui.RunFinished{ThreadID: "t1", RunID: "r1"})
	if err := errors.Join(err, lane.Close(ctx)); err != nil {
		log.Fatal(err)
	}

	r := bus.Follow(run, 0)
	defer r.Close()
	for {
		entry, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		for i, event := range entry.Events {
			id := entry.ID(bus.Epoch(), i)
			fmt.Printf("id: %s\ndata: %s\n\n", id, event)
		}
	}
}
