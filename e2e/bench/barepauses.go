package main

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"
)

const (
	bareAnswerWorkflow = "bare.answer"
	bareHangWorkflow   = "bare.hang"

	bareAnswer = "answer" // the update that bare.answer waits for
)

// bareAnswered runs an activity, waits for an update, and runs another.
func bareAnswered(ctx workflow.Context, in bareInput) error {
	answered := false
	if err := workflow.SetUpdateHandler(ctx, bareAnswer, func(workflow.Context) error { answered = true; return nil }); err != nil {
		return err
	}
	ctx = bareOptions(ctx)
	if err := workflow.ExecuteActivity(ctx, "step", in.ID, signalBegan).Get(ctx, nil); err != nil {
		return err
	}
	if err := workflow.Await(ctx, func() bool { return answered }); err != nil {
		return err
	}
	return workflow.ExecuteActivity(ctx, "step", in.ID, signalDone).Get(ctx, nil)
}

// bareHang runs an activity that ends when it is cancelled.
func bareHang(ctx workflow.Context, in bareInput) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: runWithin, HeartbeatTimeout: hangHeartbeat, WaitForCancellation: true,
	})
	return workflow.ExecuteActivity(ctx, "hang", in.ID).Get(ctx, nil)
}

// hangHeartbeat is that of Holdfast's activities.
const hangHeartbeat = 5 * time.Second

// hang waits for its cancellation. It sends heartbeats, because that is how a server tells it which pushes nothing.
func (a bareActivities) hang(ctx context.Context, id string) error {
	if err := a.tell(id, signalBegan); err != nil {
		return err
	}
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := a.tell(id, signalDone); err != nil {
				return err
			}
			return ctx.Err()
		case <-beat.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}
