package service

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/spec"
)

// describedAtOnce bounds how many queues are asked about at a time.
const describedAtOnce = 8

// delivered returns why Temporal may deliver no work to this worker; nil: it delivers. A server that answers may still wait
// for a part of itself that has ended, and then it cannot say who polls a queue. A worker whose agents are all at work
// does not poll their queues, so only the sessions' queue needs a recent poll of this worker.
func (g *gauges) delivered(ctx context.Context) error {
	var asks errgroup.Group
	asks.SetLimit(describedAtOnce)
	asks.Go(func() error {
		polled, err := g.polled(ctx)
		if err == nil && !polled {
			err = fmt.Errorf("Temporal has had no poll of this worker for queue %s lately", spec.WorkflowQueue(g.store)) //nolint:staticcheck // a name
		}
		return err
	})
	for agent := range g.agents() {
		asks.Go(func() error {
			queue := spec.AgentQueue(g.store, agent)
			if _, err := g.client.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY); err != nil {
				return notDescribed(queue, err)
			}
			return nil
		})
	}
	return asks.Wait()
}

func notDescribed(queue string, err error) error {
	return fmt.Errorf("Temporal does not say who polls queue %s, so it may deliver no work: %w", queue, err) //nolint:staticcheck // a name
}
