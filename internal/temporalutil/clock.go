package temporalutil

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// Offset is how far another clock is ahead of this machine's; negative: it is behind. The true
// value differs by at most Within.
type Offset struct {
	Ahead, Within time.Duration
}

const (
	// clockPoll is how long the poll lasts by which the clocks are compared: the
	// server refuses shorter ones.
	clockPoll = 3 * time.Second
	// clockLook is how often the server is queried for the poll.
	clockLook = 10 * time.Millisecond
)

// ClockOffset compares the server's clock with now. No call of Temporal returns its time, but it
// records when a queue was last polled: so a queue that is always empty is polled once, and the
// server is queried for the time of that poll. Nothing is written to any history.
func ClockOffset(ctx context.Context, c *Connection, queue, identity string, now func() time.Time) (Offset, error) {
	polling, stop := context.WithTimeout(ctx, clockPoll)
	defer stop()
	before := now()
	refused := make(chan error, 1)
	go func() {
		_, err := c.WorkflowService().PollActivityTaskQueue(polling, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: c.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, Identity: identity,
		})
		refused <- err
	}()
	look := time.NewTicker(clockLook)
	defer look.Stop()
	for {
		select {
		case err := <-refused:
			if err == nil || polling.Err() != nil {
				err = errors.New("the server does not report when it was polled")
			}
			return Offset{}, err
		case <-look.C:
		}
		answer, err := c.DescribeTaskQueue(polling, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
		after := now()
		if err != nil {
			return Offset{}, err
		}
		for _, p := range answer.GetPollers() {
			if p.GetIdentity() == identity {
				polled := p.GetLastAccessTime().AsTime()
				return Offset{Ahead: polled.Sub(before.Add(after.Sub(before) / 2)), Within: after.Sub(before) / 2}, nil
			}
		}
	}
}
