package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

// describer is a Temporal that answers everything but who polls some of its queues.
type describer struct {
	client.Client
	silent  string
	pollers []*taskqueuepb.PollerInfo
}

func (d describer) DescribeTaskQueue(_ context.Context, queue string,
	_ enumspb.TaskQueueType,
) (*workflowservice.DescribeTaskQueueResponse, error) {
	if queue == d.silent {
		return nil, errors.New("not enough hosts")
	}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: d.pollers}, nil
}

// TestReadinessMeansDelivery: a worker is not ready while Temporal answers and delivers nothing.
func TestReadinessMeansDelivery(t *testing.T) {
	t.Parallel()
	now := time.Unix(2000, 0)
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	works := agent.Definition{Kind: agent.KindCommand, Argv: []string{"true"}}
	set, err := agent.New(agent.Config{
		Version: 1, Isolation: agent.IsolationNone,
		Agents: map[string]agent.Definition{"coder": works, "writer": works},
	},
		agent.Options{Getenv: os.Getenv, Now: time.Now, Executable: os.Args[0]})
	require.NoError(t, err)
	sessions, coders := spec.WorkflowQueue(st.ID()), spec.AgentQueue(st.ID(), "coder")
	poll := func(identity string, ago time.Duration) []*taskqueuepb.PollerInfo {
		return []*taskqueuepb.PollerInfo{{Identity: identity, LastAccessTime: timestamppb.New(now.Add(-ago))}}
	}
	for name, c := range map[string]struct {
		temporal describer
		want     string
	}{
		"delivers":         {describer{pollers: poll("me", time.Minute)}, ""},
		"polls of another": {describer{pollers: poll("you", 0)}, "no poll of this worker for queue " + sessions},
		"an old poll":      {describer{pollers: poll("me", time.Hour)}, "no poll of this worker"},
		"the sessions' queue": {describer{pollers: poll("me", 0), silent: sessions}, "does not say who polls queue " + sessions +
			", so it may deliver no work: not enough hosts"},
		"the queue of an agent": {describer{pollers: poll("me", 0), silent: coders}, "does not say who polls queue " + coders},
	} {
		w := &Worker{store: st, identity: "me", Setup: Setup{
			Connection: &temporalutil.Connection{Client: c.temporal}, Clock: func() time.Time { return now },
		}}
		w.plan.Store(&plan{set: set})
		if err := w.delivered(t.Context()); c.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.want, name)
		}
	}
}
