package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/workflows"
)

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
