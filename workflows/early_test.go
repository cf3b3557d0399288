package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/workflows"
)

// refusal gets why an update is refused.
type refusal chan error

func (r refusal) Accept()           { r <- nil }
func (r refusal) Reject(err error)  { r <- err }
func (refusal) Complete(any, error) {}

// TestUpdatesBeforeAdmissionSayWhy: an update that comes while the session waits for
// its store is refused with what to do, and a signal is kept until then.
func TestUpdatesBeforeAdmissionSayWhy(t *testing.T) {
	t.Parallel()
	p := phase("build", "a")
	p.Approve = spec.Approval{Count: 1}
	s := &stage{team: patient(p)}
	s.team.Budget = spec.Budget{Tokens: 100}
	var raised *[]activities.RaiseInput
	updates := map[string]any{
		workflows.ResolveUpdate: session.Answer{Request: "build.approval.1", Action: session.AnswerApprove},
		workflows.RaiseUpdate:   workflows.Raise{Tokens: 1},
	}
	refused := map[string]error{}
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		s.admitting = func() {
			for name, argument := range updates {
				why := make(refusal, 1)
				env.UpdateWorkflow(name, name, why, argument)
				refused[name] = <-why
			}
			env.SignalWorkflow(workflows.RaiseUpdate, workflows.Raise{Tokens: 7})
		}
		raised = raises(env, spec.Cap{})
	}, says(time.Hour, session.Answer{Request: "build.approval.1", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	for name := range updates {
		require.ErrorContains(t, refused[name], "not admitted yet", name)
	}
	require.Len(t, *raised, 1)
	require.Equal(t, cost.Amount{Tokens: 7}, (*raised)[0].Added)
}

// TestAStepThatAWorkerCancelsIsDoneAgain: a worker that stops cancels its local
// activities, which nobody has asked for.
func TestAStepThatAWorkerCancelsIsDoneAgain(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a"), phase("test", "b"))}
	tries := 0
	s.advancing = func() error {
		if tries++; tries == 1 {
			return temporal.NewCanceledError()
		}
		return nil
	}
	env := s.play(t)
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.advanced, 2)
}

// TestNoticesThatAreNotDeliveredAreLogged ends a session while nobody outside can be
// reached.
func TestNoticesThatAreNotDeliveredAreLogged(t *testing.T) {
	t.Parallel()
	logs := &proctest.Output{}
	s := &stage{team: newTeam(phase("build", "a")), webhook: true, unreachable: true, logs: logs}
	env := s.play(t)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 1, strings.Count(logs.String(), "some of its notices may not have been delivered"), logs.String())
}
