package activities_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// dying is a database whose worker dies once, just after it has noted a step of the attempt.
type dying struct {
	activities.State
	after state.AttemptState
}

func (d *dying) PutRound(ctx context.Context, f state.Fence, a state.Assignment, r session.RoundRecord,
	c *session.Conversation,
) error {
	if err := d.State.PutRound(ctx, f, a, r, c); err != nil {
		return err
	}
	step := state.AttemptStarted
	switch {
	case r.Result != nil:
		step = state.AttemptRecorded
	case r.Ended != nil && r.Ended.Files != "":
		step = state.AttemptCollected
	case r.Ended != nil:
		step = state.AttemptAgentEnded
	}
	if step == d.after {
		d.after = ""
		panic(errKilled)
	}
	return nil
}

// TestAnAgentThatHasEndedIsPaidOnce: an execution after the death of a worker continues with the last step of the attempt. Only
// an agent whose files are gone runs again.
func TestAnAgentThatHasEndedIsPaidOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after     state.AttemptState
		elsewhere bool
		runs      int
	}{
		"ended":                                 {after: state.AttemptAgentEnded, runs: 1},
		"collected":                             {after: state.AttemptCollected, runs: 1},
		"recorded":                              {after: state.AttemptRecorded, runs: 1},
		"ended, and the next host is another":   {after: state.AttemptAgentEnded, elsewhere: true, runs: 2},
		"collected, and the next is another":    {after: state.AttemptCollected, elsewhere: true, runs: 1},
		"started, where nobody knows its end":   {after: state.AttemptStarted, runs: 1},
		"recorded, and the next is another":     {after: state.AttemptRecorded, elsewhere: true, runs: 1},
		"started, and the next host is another": {after: state.AttemptStarted, elsewhere: true, runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.team.Phases[0].Checks = []string{"good"}
			d.admit()
			checked := 0
			d.agents.check = func(session.CheckJob) error { checked++; return nil }
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				out, err := leave("a.txt", "x")(ctx, job)
				out.Log, out.Decisions = []byte("said"), map[string]string{"db": "sqlite"}
				return out, err
			}
			d.state = &dying{d.db(), c.after}
			_, err := d.round()
			require.ErrorContains(t, err, "killed")
			if c.elsewhere {
				d.on(newHost(t))
			}
			result, err := d.round()
			require.NoError(t, err)
			require.Len(t, d.agents.runs, c.runs)
			require.Equal(t, int64(10*c.runs), d.costs().Usage.Tokens(), "usage is booked once")
			require.Equal(t, int64(10*c.runs), result.Total.Tokens())
			require.Equal(t, int64(10*c.runs), result.Usage.Tokens())
			require.Empty(t, d.calls(state.CallUnsettled))
			require.Zero(t, d.costs().Reserved)
			require.Equal(t, 1, result.Attempts)
			require.Equal(t, 1, checked)
			require.Equal(t, "done", result.Summary)
			require.Equal(t, map[string]string{"db": "sqlite"}, result.Decisions)
			require.Equal(t, 1, result.Files)
			require.Equal(t, failures.FromInput, result.From)
			require.NotNil(t, result.Basis)
			transcript, err := d.store.Content.Blob(t.Context(), result.Log)
			require.NoError(t, err)
			require.Contains(t, string(transcript), "said")
			require.Nil(t, d.record().Rounds[0].Ended)
		})
	}
}

// TestACheckThatEndsItsWorkerIsGivenUp, and pays its agent once.
func TestACheckThatEndsItsWorkerIsGivenUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Phases[0].Checks = []string{"good"}
	d.admit()
	checked := 0
	d.agents.check = func(job session.CheckJob) error {
		checked++
		_ = os.WriteFile(filepath.Join(job.Tree, "left.txt"), []byte("x"), 0o600)
		panic(errKilled)
	}
	var err error
	for range 7 {
		if _, err = d.round(); err == nil || checked == 0 {
			break
		}
	}
	requireType(t, err, session.UnrecoverableError)
	require.ErrorContains(t, err, "worker_lost: the worker was lost 5 times in a row")
	require.Len(t, d.agents.runs, 1)
	require.Equal(t, int64(10), d.costs().Usage.Tokens())
	require.Empty(t, d.record().Rounds[0].Attempts)
}

// TestWhatACheckHasLeftIsNoWork: its worker died in the check, and the next execution checks the agent's files again.
func TestWhatACheckHasLeftIsNoWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Phases[0].Checks = []string{"good"}
	d.admit()
	d.agents.check = func(job session.CheckJob) error {
		_ = os.WriteFile(filepath.Join(job.Tree, "left.txt"), []byte("x"), 0o600)
		panic(errKilled)
	}
	_, err := d.round()
	require.ErrorContains(t, err, "killed")
	d.agents.check = func(job session.CheckJob) error {
		require.NoFileExists(t, filepath.Join(job.Tree, "left.txt"))
		return nil
	}
	result, err := d.round()
	require.NoError(t, err)
	require.Equal(t, 1, result.Files)
	require.Equal(t, 1, result.Lost)
	require.Len(t, d.agents.runs, 1)
}
