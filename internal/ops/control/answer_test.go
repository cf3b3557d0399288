package control

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
)

// slowSession accepts an update at once, or never, and returns its error after some time.
type slowSession struct {
	client.Client
	client.WorkflowUpdateHandle
	busy    bool
	after   time.Duration
	refusal error
}

func (s *slowSession) UpdateWorkflow(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if s.busy {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s, nil
}

func (s *slowSession) Get(ctx context.Context, _ any) error {
	select {
	case <-time.After(s.after):
		return s.refusal
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestALateRefusalIsNoSuccess(t *testing.T) {
	t.Parallel()
	refused := temporal.NewApplicationError("it was answered before", "NotAwaited")
	for name, c := range map[string]struct {
		session  slowSession
		answered bool
		says     string
	}{
		"refused at once":      {slowSession{refusal: refused}, true, "session s: it was answered before"},
		"refused late":         {slowSession{refusal: refused, after: 2 * AcceptTimeout}, true, "session s: it was answered before"},
		"applied late":         {slowSession{after: 2 * AcceptTimeout}, true, ""},
		"not applied in time":  {slowSession{after: 2 * ApplyTimeout}, true, "did not complete it within 1m0s"},
		"not accepted in time": {slowSession{busy: true}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				answered, err := send(t.Context(), &temporalutil.Connection{Client: &c.session}, "s", message{update: "resolve"}, nil)
				require.Equal(t, c.answered, answered)
				if c.says == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.says)
				}
			})
		})
	}
}
