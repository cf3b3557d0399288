package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// reply keeps what an update has come to.
type reply struct{ refused, failed error }

func (r *reply) Accept()                   {}
func (r *reply) Reject(err error)          { r.refused = err }
func (r *reply) Complete(_ any, err error) { r.failed = err }

// resolve answers a request by an update.
func resolve(env *testsuite.TestWorkflowEnvironment, a session.Answer) *reply {
	r := &reply{}
	a.Request += "-default-"
	env.UpdateWorkflow(workflows.ResolveUpdate, "update-"+a.Request+string(a.Action)+a.Person+a.Group, r, a)
	return r
}

// TestApprovalInTheTaskOfTheEnd has a session cancelled while one approval is being
// kept and another one waits for that: the session ends, and the second person hears
// that the word came too late.
func TestApprovalInTheTaskOfTheEnd(t *testing.T) {
	t.Parallel()
	s := &stage{team: leaves(), course: session.Course{PauseAfter: []string{"left", "right"}}}
	late := &reply{}
	s.play(t, says(time.Hour, session.Answer{Request: "left.approval.1", Action: session.AnswerApprove}),
		func(env *testsuite.TestWorkflowEnvironment) {
			s.writing = func(activities.WriteStatusInput) {
				late = resolve(env, session.Answer{Request: "right.approval.1", Action: session.AnswerApprove})
				env.CancelWorkflow()
			}
		})
	require.NoError(t, late.refused)
	require.ErrorContains(t, late.failed, "request right.approval.1-default- was withdrawn before its answer was applied")
	require.Equal(t, session.WasCancelled, s.closed[0].Status.Status)
}

// TestSessionThatEndsTakesNoMoreAnswers has a person abort one branch while another
// one still works, and somebody answer a third.
func TestSessionThatEndsTakesNoMoreAnswers(t *testing.T) {
	t.Parallel()
	tm := patient(phase("one", "a"), phase("two", "b"), phase("three", "c"))
	tm.Phases[1].Needs, tm.Phases[2].Needs = []string{}, []string{}
	tm.Retry.Rounds, tm.Retry.RoundInitial, tm.Retry.RoundMax = 2, textfmt.Duration(5*time.Hour), textfmt.Duration(5*time.Hour)
	s := &stage{team: tm, round: func(in activities.RoundInput) (session.RoundResult, error) {
		switch {
		case in.Persona == "c" && in.Round == 1:
			return session.RoundResult{}, failedRound(failures.APIError, "away") // a second round follows after 5 h
		case in.Persona == "c":
			return session.RoundResult{}, nil
		}
		return session.RoundResult{}, failedRound(failures.Auth, "no key")
	}}
	late := &reply{}
	env := s.play(t, says(time.Hour, session.Answer{Request: "one.a.1", Action: session.AnswerAbort}),
		func(env *testsuite.TestWorkflowEnvironment) {
			env.RegisterDelayedCallback(func() {
				late = resolve(env, session.Answer{Request: "two.b.1", Action: session.AnswerRetry})
			}, 2*time.Hour)
		})
	require.ErrorContains(t, env.GetWorkflowError(), "one/a needs help")
	require.ErrorContains(t, late.refused, "request two.b.1-default- is closed: the session is ending")
	require.Len(t, s.answers, 1)
	require.Len(t, s.advanced, 1, "what was at work is still finished")
	require.Len(t, s.closed[0].Status.Help, 2)
	got := status(t, env)
	require.Equal(t, []session.State{session.Failed, session.Failed, session.Completed},
		[]session.State{got.Phases[0].Status, got.Phases[1].Status, got.Phases[2].Status},
		"as the store has it, too")
}

// TestSessionIsNotCompleteBeforeItsApprovalIsKept has the last phase end while the
// approval of another one waits to be kept.
func TestSessionIsNotCompleteBeforeItsApprovalIsKept(t *testing.T) {
	t.Parallel()
	tm := patient(phase("middle", "b"), phase("left", "a"), phase("right", "c")) // in the order in which they take turns
	tm.Phases[1].Needs, tm.Phases[2].Needs = []string{}, []string{}
	s := &stage{team: tm, course: session.Course{PauseAfter: []string{"middle", "right"}}}
	released := make(chan struct{})
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Persona == "a" {
			<-released
		}
		return session.RoundResult{}, nil
	}
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		s.onAdvance = func(activities.AdvanceInput) {
			if len(s.advanced) == 2 {
				resolve(env, session.Answer{Request: "middle.approval.1", Action: session.AnswerApprove})
			}
		}
		s.writing = func(in activities.WriteStatusInput) {
			if in.Answer.Phase == "middle" {
				resolve(env, session.Answer{Request: "right.approval.1", Action: session.AnswerApprove})
				close(released)
				until(t, env, func(now session.Status) bool { // both wait for the boundary
					return len(now.Help) == 0 && now.Assignment(spec.AssignmentID{Phase: "left", Persona: "a"}).Status == session.Completed
				})
			}
		}
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.answers, 2)
	for _, in := range s.advanced {
		require.False(t, in.Completes, in.Phase)
	}
	require.Len(t, s.closed, 1)
}

// TestRejectionTakesRestoredWorkAlong has a person reject what half a phase, restored
// and held back, builds on.
func TestRejectionTakesRestoredWorkAlong(t *testing.T) {
	t.Parallel()
	half := activities.RestoredWork{Output: "tree-old", CheckpointAssignment: session.CheckpointAssignment{
		AssignmentID:      spec.AssignmentID{Phase: "two", Persona: "b"},
		AssignmentSummary: session.AssignmentSummary{Status: session.Completed},
		BasedWork:         session.BasedWork{Input: "input-old", Work: session.Work{Delta: "delta-old"}},
	}}
	one := phase("one", "a")
	one.Approve = spec.Approval{Count: 1}
	s := &stage{
		team: patient(one, phase("two", "b", "c")), partial: []activities.RestoredWork{half},
		begun: map[string]spec.Digest{"two": "input-old"}, unapproved: []string{"one"},
	}
	env := s.play(t, says(time.Hour, session.Answer{Request: "one.approval.1", Action: session.AnswerReject, Note: "no"}),
		at(90*time.Minute, func(env *testsuite.TestWorkflowEnvironment) {
			open := status(t, env).Help[0]
			require.Equal(t, "maestro approve "+status(t, env).Session+" one --request "+open.ID, open.Command)
		}),
		says(2*time.Hour, session.Answer{Request: "one.approval.2", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"one", "two"}, s.reworks[0].Rework.Open)
	require.ElementsMatch(t, []string{"one/a.1", "two/b.1", "two/c.1"}, s.order())
}

// disagreeing has two phases side by side, the first of which wants approval, and whose
// work is found not to fit together once the second has ended.
func disagreeing() *stage {
	tm := patient(phase("left", "a"), phase("right", "b"))
	tm.Phases[0].Approve, tm.Phases[1].Needs = spec.Approval{Count: 1}, []string{}
	s := &stage{team: tm, conflicts: map[string][]session.Conflict{"right": {{Path: "main.go"}}}}
	wait := make(chan struct{})
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Persona == "b" {
			<-wait
		}
		return session.RoundResult{}, nil
	}
	s.onAdvance = func(in activities.AdvanceInput) {
		if in.Phase == "left" && len(s.advanced) == 1 {
			close(wait)
		}
	}
	return s
}

// TestApprovalStaysOpenAfterAConflictAtTheEnd has a person reject a phase while another one,
// at which the work of all was found not to fit together, waits for approval.
func TestApprovalStaysOpenAfterAConflictAtTheEnd(t *testing.T) {
	t.Parallel()
	s := disagreeing()
	s.team.Phases[1].Approve = spec.Approval{Count: 1}
	env := s.play(t, says(time.Hour, session.Answer{Request: "left.approval.1", Action: session.AnswerReject, Note: "no"}),
		says(2*time.Hour, session.Answer{Request: "left.approval.2", Action: session.AnswerApprove}),
		says(3*time.Hour, session.Answer{Request: "right.approval.1", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.answers, 2)
}

// TestConflictAtTheEndIsOverWhenWorkIsDoneAgain has a person reject a phase while
// another one waits to hear what becomes of their disagreement.
func TestConflictAtTheEndIsOverWhenWorkIsDoneAgain(t *testing.T) {
	t.Parallel()
	s := disagreeing()
	late := &reply{}
	env := s.play(t, says(time.Hour, session.Answer{Request: "left.approval.1", Action: session.AnswerReject, Note: "no"}),
		says(3*time.Hour, session.Answer{Request: "left.approval.2", Action: session.AnswerApprove}),
		func(env *testsuite.TestWorkflowEnvironment) {
			env.RegisterDelayedCallback(func() { late = resolve(env, session.Answer{Request: "right.b.1", Action: session.AnswerSkip}) },
				2*time.Hour)
		})
	require.NoError(t, env.GetWorkflowError())
	require.ErrorContains(t, late.refused, "is not open")
	got := status(t, env)
	require.Equal(t, session.Completed, got.Phases[1].Status)
	require.Equal(t, session.Completed, got.Phases[1].Assignments[0].Status)
}

// until has an activity wait until the session's status is as wanted. It looks from
// the environment's own loop, between two workflow tasks.
func until(t *testing.T, env *testsuite.TestWorkflowEnvironment, wanted func(session.Status) bool) {
	seen := make(chan bool)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		env.RegisterDelayedCallback(func() { seen <- wanted(status(t, env)) }, 0)
		if <-seen {
			return
		}
	}
	t.Error("the session did not come to where it was to be")
}

// TestAMergeIsAskedAbout although the team has `help.mode: fail`, which is about failures.
func TestAMergeIsAskedAbout(t *testing.T) {
	t.Parallel()
	for _, mode := range []spec.MergeMode{spec.MergeAsk, spec.MergeAuto} {
		tm := newTeam(phase("one"))
		tm.Phases[0].Deliver = &spec.Deliver{To: "github", Merge: mode}
		tm.Help.GiveUpAfter = textfmt.Duration(24 * time.Hour)
		asked := false
		s := &stage{team: tm, round: func(activities.RoundInput) (session.RoundResult, error) {
			if !asked {
				asked = true
				return session.RoundResult{}, failedRound(failures.NeedsPerson, "it can be merged")
			}
			return session.RoundResult{}, nil
		}}
		env := s.play(t, says(time.Hour, session.Answer{Request: "one.delivery.1", Action: session.AnswerRetry}))
		if mode == spec.MergeAsk {
			require.NoError(t, env.GetWorkflowError())
		} else {
			requireHelp(t, env, "one/delivery failed: needs_person")
		}
	}
}

// leaves is a team of two phases side by side.
func leaves() spec.Team {
	return spec.Team{
		Version: 1, Name: "t",
		Personas: map[string]spec.Persona{"a": {Role: "a", Agent: "agent-a"}, "b": {Role: "b", Agent: "agent-b"}},
		Phases: []spec.Phase{
			{Name: "left", Needs: []string{}, Personas: []string{"a"}},
			{Name: "right", Needs: []string{}, Personas: []string{"b"}},
		},
	}
}

// TestAnAnswerIsStoredBeforeTheNextPhaseStarts: the next phase starts from the checkpoint that has the answer, because a worker
// may be lost between the two.
func TestAnAnswerIsStoredBeforeTheNextPhaseStarts(t *testing.T) {
	t.Parallel()
	team := leaves()
	team.Phases[1].Needs = []string{"left"}
	s := &stage{team: team, course: session.Course{PauseAfter: []string{"left"}}}
	env := s.play(t, says(time.Hour, session.Answer{Request: "left.approval.1", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"left/a.1", "right/b.1"}, s.order())
	require.EqualValues(t, "head-left.approval.1-default-", s.rounds[1].Head)
}

// ruled is a session, started by ana, of a phase with a rule of approval and one that builds on it.
func ruled(a spec.Approval) (*stage, workflows.SessionInput) {
	tm := patient(phase("one", "a"), phase("two", "b"))
	tm.Phases[0].Approve = a
	return &stage{team: tm, webhook: true}, workflows.SessionInput{Start: session.Start{
		Store: "s", Workspace: "input-root", Starter: session.Starter{StartedBy: "ana"},
	}}
}

// approval is the answer of a person to the first request.
func approval(person, group string) session.Answer {
	return session.Answer{
		Request: "one.approval.1", Action: session.AnswerApprove, By: person + " (token)", Person: person,
		Group: group,
	}
}

// at has something happen at a time.
func at(after time.Duration, do func(env *testsuite.TestWorkflowEnvironment)) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) { env.RegisterDelayedCallback(func() { do(env) }, after) }
}

// TestTwoPersonsApprove has a phase wait until two members of its groups have approved it.
func TestTwoPersonsApprove(t *testing.T) {
	t.Parallel()
	s, in := ruled(spec.Approval{By: []string{"leads", "security"}, Count: 2})
	replies := map[string]*reply{}
	var open session.Status
	env := s.playFrom(t, in, at(time.Hour, func(env *testsuite.TestWorkflowEnvironment) {
		require.Equal(t, "0 of 2 approvals; needs 2 persons of leads or security", status(t, env).Help[0].Message)
		replies["ana"] = resolve(env, approval("ana", "leads"))
	}), at(2*time.Hour, func(env *testsuite.TestWorkflowEnvironment) {
		open = status(t, env)
		again := approval("ana", "security")
		again.Note = "with my other token"
		replies["again"] = resolve(env, again)
		replies["other group"] = resolve(env, approval("bob", "sales"))
		replies["no group"] = resolve(env, approval("bob", ""))
		replies["nobody"] = resolve(env, approval("", "leads"))
		reject := approval("bob", "sales")
		reject.Action, reject.Note = session.AnswerReject, "no"
		replies["reject"] = resolve(env, reject)
	}), at(3*time.Hour, func(env *testsuite.TestWorkflowEnvironment) {
		replies["bob"] = resolve(env, approval("bob", "security"))
	}))
	require.NoError(t, env.GetWorkflowError())
	for _, good := range []string{"ana", "bob"} {
		require.NoError(t, replies[good].refused)
		require.NoError(t, replies[good].failed)
	}
	for name, why := range map[string]string{
		"again": "ana has approved already; it needs another person", "other group": "bob is not a member of leads or security",
		"no group": "bob is not a member of leads or security", "nobody": "the person who answers is unknown",
		"reject": "bob is not a member",
	} {
		require.ErrorContains(t, replies[name].refused, why, name)
	}
	require.Equal(t, session.AwaitingApproval, open.Status)
	require.Equal(t, "ana", open.StartedBy)
	require.Len(t, open.Help[0].Quorum.Approvals, 1)
	require.Contains(t, open.Help[0].Message, "1 of 2 approvals: ana ")
	require.Contains(t, open.Reason, "needs 1 person of leads or security; continue with `maestro approve")
	require.Equal(t, []string{"one/a.1", "two/b.1"}, s.order())
	require.Len(t, s.answers, 2, "the store has both")
	require.Equal(t, []string{"ana", "bob"}, []string{s.answers[0].Person, s.answers[1].Person})
	require.Equal(t, []int{1, 0}, []int{s.answers[0].Left, s.answers[1].Left})
	var went *session.Request
	for _, n := range s.told {
		if n.Notice.Event == session.RequestClosed {
			went = n.Notice.Request
		}
	}
	require.Len(t, went.Quorum.Approvals, 2, "people outside hear who has approved")
}

// TestStarterDoesNotApproveAlone: with a group, a session's starter is not the one who approves.
func TestStarterDoesNotApproveAlone(t *testing.T) {
	t.Parallel()
	s, in := ruled(spec.Approval{By: []string{"leads"}, Count: 1})
	own, other := &reply{}, &reply{}
	env := s.playFrom(t, in, at(time.Hour,
		func(env *testsuite.TestWorkflowEnvironment) { own = resolve(env, approval("ana", "leads")) }),
		at(2*time.Hour, func(env *testsuite.TestWorkflowEnvironment) {
			other = resolve(env, approval("root@host", session.AnyGroup))
		}))
	require.NoError(t, env.GetWorkflowError())
	require.ErrorContains(t, own.refused, "ana started the session; it needs another person")
	require.NoError(t, other.refused, "who can write the store's files is taken for a member")
}

// TestAPersonWithAnotherNameIsTheSamePerson has the starter and an approver change their names at the
// provider of sign-ins.
func TestAPersonWithAnotherNameIsTheSamePerson(t *testing.T) {
	t.Parallel()
	renamed := func(person, id string) session.Answer {
		a := approval(person, "")
		a.PersonID = id
		return a
	}
	s, in := ruled(spec.Approval{By: []string{"leads"}, Count: 1})
	in.StartedByID = "1"
	own := &reply{}
	env := s.playFrom(t, in, at(time.Hour, func(env *testsuite.TestWorkflowEnvironment) {
		a := renamed("anna", "1")
		a.Group = "leads"
		own = resolve(env, a)
	}), says(2*time.Hour, approval("bob", "leads")))
	require.NoError(t, env.GetWorkflowError())
	require.ErrorContains(t, own.refused, "anna started the session; it needs another person")

	s, in = ruled(spec.Approval{Count: 2})
	again := &reply{}
	env = s.playFrom(t, in, says(time.Hour, renamed("ana", "1")),
		at(2*time.Hour, func(env *testsuite.TestWorkflowEnvironment) { again = resolve(env, renamed("anna", "1")) }),
		says(3*time.Hour, renamed("bob", "2")))
	require.NoError(t, env.GetWorkflowError())
	require.ErrorContains(t, again.refused, "anna has approved already; it needs another person")
}

// TestOneRejectionIsEnough has a member reject what another one has approved. The work that is
// done again is approved by two persons anew.
func TestOneRejectionIsEnough(t *testing.T) {
	t.Parallel()
	s, in := ruled(spec.Approval{Count: 2})
	env := s.playFrom(t, in, says(time.Hour, approval("ana", "")),
		says(2*time.Hour, session.Answer{Request: "one.approval.1", Action: session.AnswerReject, Person: "ana", Note: "I was wrong"}),
		at(3*time.Hour, func(env *testsuite.TestWorkflowEnvironment) {
			require.Equal(t, "one.approval.2-default-", status(t, env).Help[0].ID)
			require.Empty(t, status(t, env).Help[0].Quorum.Approvals)
		}),
		says(4*time.Hour, session.Answer{Request: "one.approval.2", Action: session.AnswerApprove, Person: "ana"}),
		says(5*time.Hour, session.Answer{Request: "one.approval.2", Action: session.AnswerApprove, Person: "bob"}))
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.reworks, 1)
	require.Equal(t, []string{"one/a.1", "one/a.1", "two/b.1"}, s.order())
}

// TestApprovalsOutliveTheirRun has a person approve while the session only waits for the round at
// work, to continue as new: the next run stores the approval, and waits for the others.
func TestApprovalsOutliveTheirRun(t *testing.T) {
	t.Parallel()
	s, in := ruled(spec.Approval{Count: 3})
	s.team.Phases = append(s.team.Phases, phase("aside", "c"))
	s.team.Personas["c"] = s.team.Personas["b"]
	s.team.Phases[2].Needs = []string{}
	first := &reply{}
	var env *testsuite.TestWorkflowEnvironment
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Persona == "c" {
			until(t, env, func(now session.Status) bool { return len(now.Help) == 1 })
			asked := make(chan struct{})
			env.RegisterDelayedCallback(func() {
				suggest(env)
				first = resolve(env, approval("ana", ""))
				close(asked)
			}, 0)
			<-asked
		}
		return session.RoundResult{}, nil
	}
	env = s.playFrom(t, in, func(e *testsuite.TestWorkflowEnvironment) { env = e })
	in = next(t, env)
	require.NoError(t, first.refused)
	require.NoError(t, first.failed)
	require.Len(t, in.Continued.Requests[0].Quorum.Approvals, 1)
	require.Len(t, in.Continued.Requests[0].Unsaved, 1)
	require.Empty(t, s.answers)
	again := &reply{}
	env = s.playFrom(t, in, at(time.Hour, func(env *testsuite.TestWorkflowEnvironment) {
		require.Len(t, s.answers, 1)
		again = resolve(env, approval("ana", ""))
	}), says(2*time.Hour, approval("bob", "")), says(3*time.Hour, approval("cem", "")))
	require.NoError(t, env.GetWorkflowError())
	require.ErrorContains(t, again.refused, "has approved already")
	require.Len(t, s.answers, 3, "each is stored once")
	require.Equal(t, []session.Event{session.ApprovalAsked, session.RequestClosed, session.SessionCompleted}, s.events(),
		"people are notified by one of the runs")
	require.ElementsMatch(t, []string{"one/a.1", "aside/c.1", "two/b.1"}, s.order())
}

// TestApprovalsOfAnEarlierRunCount has a session resumed that one of two persons had approved.
func TestApprovalsOfAnEarlierRunCount(t *testing.T) {
	t.Parallel()
	s, in := ruled(spec.Approval{By: []string{"leads"}, Count: 2})
	s.begun, s.unapproved = map[string]spec.Digest{"two": "input-two"}, []string{"one"}
	s.approvals = map[string][]session.Approval{"one": {{Person: "ana", Group: "leads"}, {Person: "eve", Group: "sales"}}}
	env := s.playFrom(t, in, at(time.Hour, func(env *testsuite.TestWorkflowEnvironment) {
		require.Contains(t, status(t, env).Help[0].Message, "1 of 2 approvals: ana ")
	}), says(2*time.Hour, approval("bob", "leads")))
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"two/b.1"}, s.order())
}
