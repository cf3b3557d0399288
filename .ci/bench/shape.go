package main

import (
	"context"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/workflows"
)

const (
	shapeQueue      = "shape"
	shapeAgentQueue = "shape-agent"
	shapeWorkflow   = "shape-workflow"
	shapeActivity   = "shape-activity"
	// shapeBytes is how much each activity of it is given, and returns: about what
	// a session's are.
	shapeBytes = 650
	// shapeTimer is longer than the workflow.
	shapeTimer = time.Minute
)

// shape serves a workflow with the events of a session and activities that do
// nothing: one for each phase on the queue of an agent, a local one before the
// first and after each, the search attributes before the first and at the end, a
// timer for what is published later, and payloads of about the same size.
func (st *stand) shape(steps int) error {
	sessions := worker.New(st.conn.Client, shapeQueue, service.WorkflowQueueOptions(shapeQueue))
	agents := worker.New(st.conn.Client, shapeAgentQueue, worker.Options{
		Identity: shapeQueue, DisableWorkflowWorker: true, MaxConcurrentActivityTaskPollers: 16,
	})
	sessions.RegisterWorkflowWithOptions(shapeOfSession, workflow.RegisterOptions{Name: shapeWorkflow})
	for _, q := range []worker.Worker{sessions, agents} {
		q.RegisterActivityWithOptions(func(_ context.Context, text string) (string, error) { return text, nil },
			activity.RegisterOptions{Name: shapeActivity})
		if err := q.Start(); err != nil {
			return err
		}
		st.stops = append(st.stops, func() error { q.Stop(); return nil })
	}
	st.kinds[shapeKind] = kind{start: func(ctx context.Context, id string) (client.WorkflowRun, error) {
		return st.conn.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: shapeQueue, EnableEagerStart: true},
			shapeWorkflow, steps)
	}}
	return nil
}

func shapeOfSession(ctx workflow.Context, steps int) error {
	text := strings.Repeat("x", shapeBytes)
	work := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: shapeAgentQueue, StartToCloseTimeout: time.Minute, HeartbeatTimeout: time.Minute,
	})
	between := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: time.Minute})
	for step := range steps + 1 {
		if step > 0 {
			if err := workflow.ExecuteActivity(work, shapeActivity, text).Get(ctx, nil); err != nil {
				return err
			}
		}
		if err := workflow.ExecuteLocalActivity(between, shapeActivity, text).Get(ctx, nil); err != nil {
			return err
		}
		if step == 1 {
			workflow.NewTimer(ctx, shapeTimer)
		}
		if 0 < step && step < steps {
			continue
		}
		err := workflow.UpsertTypedSearchAttributes(ctx,
			workflows.AttributeTeam.ValueSet("shape"), workflows.AttributeStatus.ValueSet("running"),
			workflows.AttributePhase.ValueSet([]string{"phase"}), workflows.AttributeTokens.ValueSet(int64(step)))
		if err != nil {
			return err
		}
	}
	return workflow.UpsertMemo(ctx, map[string]any{workflows.MemoStatus: text[:shapeBytes/4]})
}
