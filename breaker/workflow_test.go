package breaker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

var testBreaker = spec.Breaker{
	Threshold: 2, Cooldown: textfmt.Duration(time.Minute),
	MaxCooldown: textfmt.Duration(time.Hour),
}.For("writer")

func outcome(id string, weight failures.Weight, generation int64) session.BreakerReport {
	return session.BreakerReport{
		ID: id, Breaker: testBreaker, Outcome: weight, BreakerPermit: session.BreakerPermit{Generation: generation},
		Category: failures.APIError, Message: "503",
	}
}

// bench runs a breaker in the SDK's test environment.
type bench struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment
	at  time.Duration
}

func newBench(t *testing.T) *bench {
	var suite testsuite.WorkflowTestSuite
	b := &bench{t: t, env: suite.NewTestWorkflowEnvironment()}
	b.env.RegisterWorkflowWithOptions(breaker.Workflow, workflow.RegisterOptions{Name: breaker.WorkflowName})
	return b
}

// update sends one update a second and hands its answer to check.
func (b *bench) update(name breaker.UpdateName, id string, arg any, check func(breaker.Answer)) {
	b.at += time.Second
	b.env.RegisterDelayedCallback(func() {
		b.env.UpdateWorkflow(string(name), id, &testsuite.TestUpdateCallback{
			OnReject: func(err error) { require.NoError(b.t, err) },
			OnAccept: func() {},
			OnComplete: func(answer any, err error) {
				require.NoError(b.t, err)
				if check != nil {
					check(answer.(breaker.Answer))
				}
			},
		}, arg)
	}, b.at)
}

// end has the workflow continue as new after the updates and returns its state.
func (b *bench) end(in breaker.Input) breaker.Input {
	b.env.RegisterDelayedCallback(func() {
		b.env.SetContinueAsNewSuggested(true)
		b.env.UpdateWorkflow(string(breaker.RenewUpdate), "last", &testsuite.TestUpdateCallback{
			OnReject: func(error) {}, OnAccept: func() {}, OnComplete: func(any, error) {},
		}, breaker.RenewRequest{Holder: "nobody"})
	}, b.at+time.Second)
	b.env.ExecuteWorkflow(breaker.WorkflowName, in)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(b.t, b.env.GetWorkflowError(), &again)
	var next breaker.Input
	require.NoError(b.t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &next))
	return next
}

func TestSecondRunKnowsAllOfTheFirst(t *testing.T) {
	t.Parallel()
	first := newBench(t)
	first.update(breaker.ReportUpdate, "r1", outcome("r1", failures.CountsAsFailure, 0), nil)
	first.update(breaker.ReportUpdate, "r2", outcome("r2", failures.CountsAsFailure, 0), func(a breaker.Answer) {
		require.Equal(t, breaker.Applied, a.Effect)
		require.True(t, a.State.Open)
	})
	first.at += 2 * time.Minute
	first.update(breaker.AcquireUpdate, "a1", breaker.AcquireRequest{Holder: "p", Breaker: testBreaker}, func(a breaker.Answer) {
		require.Equal(t, breaker.Leased, a.Effect)
	})
	next := first.end(breaker.Input{Store: "s", View: breaker.View{Name: "writer", Settings: testBreaker}})
	require.True(t, next.State.Open)
	require.Len(t, next.State.Probes, 1)
	require.Len(t, next.Applied, 2)
	require.Equal(t, int64(3), next.State.Revision)

	second := newBench(t)
	second.env.SetStartTime(next.State.Probes[0].Until.Add(-time.Minute))
	second.update(breaker.ReportUpdate, "r2", outcome("r2", failures.CountsAsFailure, 1), func(a breaker.Answer) {
		require.Equal(t, breaker.Ignored, a.Effect, "applied before the first ended")
		require.Equal(t, next.View, a.View)
	})
	success := outcome("r3", failures.CountsAsSuccess, 1)
	success.Holder = "p"
	second.update(breaker.ReportUpdate, "r3", success, func(a breaker.Answer) {
		require.Equal(t, breaker.Applied, a.Effect, "the probe's lease holds")
		require.False(t, a.State.Open)
	})
	last := second.end(next)
	require.Equal(t, next.Since, last.Since)
	require.Len(t, last.Applied, 3)
}

func TestRememberedUpdatesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 3 {
		id := fmt.Sprintf("r%d", i)
		b.update(breaker.ReportUpdate, id, outcome(id, failures.Neutral, 0), nil)
	}
	in := breaker.Input{Store: "s", View: breaker.View{Name: "writer"}}
	for i := range 999 {
		in.Applied = append(in.Applied, fmt.Sprintf("old%d", i))
	}
	next := b.end(in)
	require.Len(t, next.Applied, 1000)
	require.Equal(t, "old2", next.Applied[0], "the oldest are forgotten first")
}

func TestMalformedUpdatesAreRefused(t *testing.T) {
	t.Parallel()
	bad := func(change func(*session.BreakerReport)) session.BreakerReport {
		r := outcome("id", failures.CountsAsFailure, 0)
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		update breaker.UpdateName
		arg    any
		want   string
	}{
		"another breaker's report": {
			breaker.ReportUpdate, bad(func(r *session.BreakerReport) { r.Breaker.Name = "x" }),
			`the report is for breaker "x"; this is "writer"`,
		},
		"no id": {breaker.ReportUpdate, bad(func(r *session.BreakerReport) { r.ID = "" }), "has no id"},
		"no outcome": {
			breaker.ReportUpdate, bad(func(r *session.BreakerReport) { r.Outcome = "" }),
			"none of failure, success and neutral",
		},
		"a negative generation": {breaker.ReportUpdate, bad(func(r *session.BreakerReport) { r.Generation = -1 }), "negative"},
		"settings that never open": {
			breaker.ReportUpdate, bad(func(r *session.BreakerReport) { r.Breaker.Threshold = 0 }),
			"must be positive",
		},
		"another breaker's acquire": {breaker.AcquireUpdate, breaker.AcquireRequest{Holder: "a"}, `for breaker ""`},
		"an acquire by nobody":      {breaker.AcquireUpdate, breaker.AcquireRequest{Breaker: testBreaker}, "no holder"},
		"a renewal by nobody":       {breaker.RenewUpdate, breaker.RenewRequest{}, "no holder"},
		"a trip without a reason":   {breaker.TripUpdate, breaker.TripRequest{By: "ann"}, "missing why"},
		"a trip into the past":      {breaker.TripUpdate, breaker.TripRequest{By: "ann", Why: "x", For: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var rejected error
			b.env.RegisterDelayedCallback(func() {
				b.env.UpdateWorkflow(string(c.update), "id", &testsuite.TestUpdateCallback{
					OnReject: func(err error) { rejected = err }, OnAccept: func() {}, OnComplete: func(any, error) {},
				}, c.arg)
			}, time.Second)
			b.at = 2 * time.Second
			next := b.end(breaker.Input{Store: "s", View: breaker.View{Name: "writer"}})
			require.ErrorContains(t, rejected, c.want)
			require.Zero(t, next.State)
		})
	}
}
