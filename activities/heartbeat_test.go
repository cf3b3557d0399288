package activities_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// beats answers every report in the same way, and keeps the last one.
type beats struct {
	answer error
	n      atomic.Int32
	last   atomic.Pointer[activities.Heartbeat]
}

func (b *beats) Beat(_ context.Context, beat activities.Heartbeat) error {
	b.last.Store(&beat)
	b.n.Add(1)
	return b.answer
}

// lock takes the assignment, as another execution of its round has it.
func (d *desk) lock() session.Lock {
	d.t.Helper()
	lock, ok, err := d.store.Lock(d.t.Context(), d.key(), d.roundInput().AssignmentID)
	require.NoError(d.t, err)
	require.True(d.t, ok)
	return lock
}

// TestExecutionThatIsGivenUpWhileItWaitsGivesWay: the one in its place waits, too.
func TestExecutionThatIsGivenUpWhileItWaitsGivesWay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	defer d.lock().Unlock()
	told := &beats{answer: activities.ErrReplaced}
	d.heartbeats = told
	_, err := d.round()
	requireType(t, err, session.HandedOver)
	require.Empty(t, d.agents.runs)
	require.Empty(t, d.record().Rounds)
}

// TestExecutionThatIsGivenUpAtWorkWorksOn, and says so once however long that takes.
func TestExecutionThatIsGivenUpAtWorkWorksOn(t *testing.T) {
	t.Parallel()
	for _, answer := range []error{activities.ErrReplaced, errors.New("connection refused")} {
		t.Run(answer.Error(), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			told := &beats{answer: answer}
			d.heartbeats = told
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				for told.n.Load() < 3 && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				if ctx.Err() != nil {
					return session.Outcome{}, context.Cause(ctx)
				}
				return leave("a.txt", "x")(ctx, job)
			}
			var lines bytes.Buffer
			d.logger = slog.New(slog.NewTextHandler(&lines, nil))
			result, err := d.round()
			require.NoError(t, err)
			require.Equal(t, 1, result.Attempts)
			require.Equal(t, 1, strings.Count(lines.String(), "level=WARN"), lines.String())
		})
	}
}
