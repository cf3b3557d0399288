package activities_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// dev is the desk's assignment.
func (d *desk) dev() state.Assignment {
	return state.Assignment{Key: d.key(), AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}}
}

// calls lists the assignment's calls; in a state, if one is given.
func (d *desk) calls(of ...state.CallState) (calls []state.Call) {
	d.t.Helper()
	all, err := d.store.State.Calls(d.t.Context(), d.dev())
	require.NoError(d.t, err)
	for _, c := range all {
		if len(of) == 0 || c.State == of[0] {
			calls = append(calls, c)
		}
	}
	return calls
}

// costs are the sums of the session's calls.
func (d *desk) costs() state.Cost {
	d.t.Helper()
	a, err := d.store.State.Account(d.t.Context(), d.key())
	require.NoError(d.t, err)
	return a.Of(spec.AssignmentID{})
}

func (d *desk) day() budget.Budget {
	d.t.Helper()
	day, err := d.store.State.Day(d.t.Context(), "t")
	require.NoError(d.t, err)
	return day.Budget
}

// other has another session of the team begin a call.
func (d *desk) other(tokens int64) (call string) {
	d.t.Helper()
	return d.beginIn(session.Key{Namespace: d.key().Namespace, Session: "other"}, tokens)
}

func (d *desk) beginIn(key session.Key, tokens int64) (call string) {
	d.t.Helper()
	run, err := d.store.State.Admit(d.t.Context(), state.Admission{
		Key: key, TemporalRun: key.Session, OriginalRun: key.Session, Team: "t", Caps: budget.Caps(d.team),
	})
	require.NoError(d.t, err)
	attempt := state.AttemptKey{
		Assignment: state.Assignment{Key: key, AssignmentID: d.dev().AssignmentID}, Pass: 1, Round: 1,
		Attempt: 1,
	}
	want := cost.Amount{Tokens: tokens}
	n := state.NewCall{
		ID: state.NewCallID(), CallKey: state.CallKey{AttemptKey: attempt, Call: state.NextCall}, Fence: state.Fence{Run: run},
		Team: "t", Agent: "a", Want: want, Least: want, Estimated: want,
	}
	v, err := d.store.State.Begin(d.t.Context(), n)
	require.NoError(d.t, err)
	require.Nil(d.t, v.Refused)
	return n.ID
}

// end ends a call of another session, after a while.
func (d *desk) end(after time.Duration, call string, as state.CallEnd) (stop func() bool) {
	return time.AfterFunc(after, func() {
		if err := d.store.State.End(d.t.Context(), call, as); err != nil {
			d.t.Error(err)
		}
	}).Stop
}
