package workflows

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// TestWhetherARoundFollows is retry level 2.
func TestWhetherARoundFollows(t *testing.T) {
	t.Parallel()
	retry := spec.Retry{Rounds: 3, RoundInitial: textfmt.Duration(5 * time.Second), RoundMax: textfmt.Duration(20 * time.Second)}
	for _, c := range []struct {
		failure failures.Failure
		round   int
		wait    time.Duration
		again   bool
	}{
		{failures.Failure{Category: failures.TestFailure}, 1, 5 * time.Second, true},
		{failures.Failure{Category: failures.TestFailure}, 2, 10 * time.Second, true},
		{failures.Failure{Category: failures.TestFailure}, 3, 0, false},
		{failures.Failure{Category: failures.RateLimited, RetryAfter: textfmt.Duration(10 * time.Minute)}, 1, 10 * time.Minute, true},
		{failures.Failure{Category: failures.Auth}, 1, 0, false},
	} {
		wait, again := afterRound(c.failure, c.round, retry)
		require.Equal(t, c.again, again, "%+v", c)
		require.Equal(t, c.wait, wait, "%+v", c)
	}
}

// TestTheNextRunHasTheNextStep has each step of an assignment travel to the next run, alone.
func TestTheNextRunHasTheNextStep(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		step    nextStep
		pending bool
		keys    []string
	}{
		{nextStep{}, false, nil},
		{nextRound(at), true, []string{"due", "not_before"}},
		{sameRound(execution{ID: "p.a.1.1", Outage: activities.OutageNoticed}), true, []string{"next"}},
		{askPerson(failures.Failure{Category: failures.Auth, Message: "no key"}), true, []string{"failure"}},
	} {
		require.Equal(t, c.pending, c.step.pending())
		data, err := json.Marshal(assignment{nextStep: c.step})
		require.NoError(t, err)
		var read assignment
		require.NoError(t, json.Unmarshal(data, &read))
		require.Equal(t, c.step, read.nextStep)
		var keys map[string]any
		require.NoError(t, json.Unmarshal(data, &keys))
		var steps []string
		for _, key := range []string{"due", "not_before", "next", "failure"} {
			if keys[key] != nil {
				steps = append(steps, key)
			}
		}
		require.Equal(t, c.keys, steps)
	}
}

// TestWhichAgentWorks has a persona's agent declined, refused by its budget, and back.
func TestWhichAgentWorks(t *testing.T) {
	t.Parallel()
	s := &sessionRun{SessionState: SessionState{
		Team: spec.Team{
			Personas: map[string]spec.Persona{"a": {Agent: "large", Fallback: true}, "b": {Agent: "other", Fallback: true}},
			Budget:   spec.Budget{OnExceeded: spec.OnExceededDegrade},
		},
		Fallbacks: map[string]string{"large": "small"},
	}}
	work := func(persona string) *assignment {
		a := &assignment{}
		a.Persona = persona
		return a
	}
	a, b := work("a"), work("b")
	require.Equal(t, "large", s.agentOf(a))
	require.Equal(t, spec.OnExceededDegrade, s.onExceeded(a))
	require.Equal(t, spec.OnExceededStop, s.onExceeded(b), "it has no fallback")
	a.Substitute = "small"
	s.chooseAgent(a, failures.Failure{Category: failures.TestFailure})
	require.Equal(t, "large", s.agentOf(a), "the next round is its own again")
	a.Substitute, a.Degraded = "small", true
	s.chooseAgent(a, failures.Failure{Category: failures.TestFailure})
	require.Equal(t, "small", s.agentOf(a), "its own is too expensive")
	require.Equal(t, spec.OnExceededStop, s.onExceeded(a))
}

// TestHowASessionEnds has several reasons at once: what a person did comes first.
func TestHowASessionEnds(t *testing.T) {
	t.Parallel()
	e := &ending{}
	_, reason, err := e.outcome(false, nil)
	require.Error(t, err)
	require.Contains(t, reason, "without a recorded reason", "a session never ends without an error")
	e.fault = errors.New("no such team")
	state, reason, _ := e.outcome(false, nil)
	require.Equal(t, session.Failed, state)
	require.Equal(t, "no such team", reason)
	e.fail(&request{Request: session.Request{Phase: "build", Persona: "a", Category: failures.Auth, Message: "no key"}},
		"aborted by ann")
	_, reason, _ = e.outcome(false, nil)
	require.Equal(t, "build/a failed: auth: no key (aborted by ann)", reason)
	state, _, _ = e.outcome(true, nil)
	require.Equal(t, session.WasCancelled, state)
	require.True(t, e.stopping())
}

// TestTheNextRunHasTheWholeState hands a phase, its work and its requests over as JSON.
func TestTheNextRunHasTheWholeState(t *testing.T) {
	t.Parallel()
	before := &sessionRun{SessionState: SessionState{
		Team:       spec.Team{Name: "t", Phases: []spec.Phase{{Name: "p", Personas: []string{"a", "b"}}}},
		RaisedCaps: map[string]spec.Cap{"session": {Tokens: 5}}, LastAttempts: []bool{true, false},
	}}
	before.Schedule.load(&before.Team, session.Course{}, activities.Admission{
		Todo: []string{"p"}, Unapproved: []string{"p"}, Approvals: map[string][]session.Approval{"p": {{Person: "ann"}}},
		Notes: map[string]string{"p/b": "mind the edges"},
	})
	p := before.Schedule.byName["p"]
	for i, persona := range p.Personas {
		p.Work = append(p.Work, newAssignment(p.Assignments[i], session.AssignmentStatus{},
			spec.AssignmentID{Phase: "p", Persona: persona}, "input"))
	}
	p.Work[0].begin()
	p.Work[0].nextStep = askPerson(failures.Failure{Category: failures.Auth})
	help := &request{
		Request: session.Request{ID: "p.a.1", Kind: session.ForHelp, Phase: "p", Persona: "a"},
		Answer:  &session.Answer{Note: "again"},
	}
	outage := &request{Request: session.Request{ID: "p.b.1", Kind: session.ForOutage, Phase: "p", Persona: "b"}, Notified: true}
	before.Requests = []*request{help, outage}

	data, err := json.Marshal(before.SessionState)
	require.NoError(t, err)
	var read SessionState
	require.NoError(t, json.Unmarshal(data, &read))
	next := &sessionRun{}
	next.restore(read)

	require.Equal(t, before.RaisedCaps, next.RaisedCaps)
	require.Equal(t, before.LastAttempts, next.LastAttempts)
	got := next.Schedule.byName["p"]
	require.Equal(t, p.Phase, got.Phase)
	require.Equal(t, p.Approvals, got.Approvals)
	require.True(t, got.Todo && got.Unapproved)
	require.Equal(t, p.Work[0].nextStep, got.Work[0].nextStep)
	require.Equal(t, 1, got.Work[0].RoundsOfRun)
	require.Equal(t, "mind the edges", got.Work[1].Note)
	require.Same(t, got.Assignments[1], got.Work[1].assignmentState)
	require.True(t, next.Requests[0].handedOver)
	require.Equal(t, "again", next.Requests[0].Answer.Note)
	require.Same(t, next.Requests[1], got.Assignments[1].notice)
	require.Len(t, next.Status.Help, 2)
}

// TestADeliveryTakesNoFiles: the request says which answers it takes.
func TestADeliveryTakesNoFiles(t *testing.T) {
	t.Parallel()
	all := session.ForHelp.Rule().Actions
	require.Equal(t, all, answersOf(spec.Phase{Name: "build"}, all))
	r := &request{Request: session.Request{ID: "ship.delivery.1", Kind: session.ForHelp}}
	r.Actions = answersOf(spec.Phase{Name: "ship", Deliver: &spec.Deliver{}}, all)
	err := r.checkAnswer(session.Answer{Action: session.AnswerSupply, Files: "f"}, "s")
	require.ErrorContains(t, err, `request ship.delivery.1 cannot be answered with action "supply"; it takes retry, skip, abort`)
	require.Contains(t, session.ForHelp.Rule().Actions, session.AnswerSupply)
}
