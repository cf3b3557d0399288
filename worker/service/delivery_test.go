package service

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/maestro-hive/maestro/internal/spec"
)

// describer is a Temporal that answers everything but who polls some of its queues.
type describer struct {
	client.Client
	silent  string
	pollers []*taskqueuepb.PollerInfo
}

func (d describer) DescribeTaskQueue(_ context.Context, queue string, _ enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	if queue == d.silent {
		return nil, errors.New("not enough hosts")
	}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: d.pollers}, nil
}

// TestReadinessMeansDelivery: a worker is not ready while Temporal answers and delivers nothing.
func TestReadinessMeansDelivery(t *testing.T) {
	t.Parallel()
	now := time.Unix(2000, 0)
	poll := func(identity string, ago time.Duration) []*taskqueuepb.PollerInfo {
		return []*taskqueuepb.PollerInfo{{Identity: identity, LastAccessTime: timestamppb.New(now.Add(-ago))}}
	}
	for name, c := range map[string]struct {
		temporal describer
		want     string
	}{
		"delivers":              {describer{pollers: poll("me", time.Minute)}, ""},
		"polls of another":      {describer{pollers: poll("you", 0)}, "no poll of this worker for queue maestro-abcd"},
		"an old poll":           {describer{pollers: poll("me", time.Hour)}, "no poll of this worker"},
		"the sessions' queue":   {describer{pollers: poll("me", 0), silent: "maestro-abcd"}, "does not say who polls queue maestro-abcd, so it may deliver no work: not enough hosts"},
		"the queue of an agent": {describer{pollers: poll("me", 0), silent: "maestro-abcd.coder"}, "does not say who polls queue maestro-abcd.coder"},
	} {
		g := gauges{
			client: c.temporal, store: "abcd", identity: "me", clock: func() time.Time { return now },
			agents: func() map[string]spec.OfferedAgent { return map[string]spec.OfferedAgent{"coder": {}, "writer": {}} },
		}
		if err := g.delivered(t.Context()); c.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.want, name)
		}
	}
}
