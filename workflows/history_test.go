package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/worker/telemetry"
	"github.com/maestro-hive/maestro/workflows"
)

// TestPhasesArePublishedEveryTenSeconds, and a change of the status at once: fast phases pay
// nothing for search attributes, and slow ones show.
func TestPhasesArePublishedEveryTenSeconds(t *testing.T) {
	t.Parallel()
	for name, expected := range map[string]struct {
		work      map[string]time.Duration
		published []string
	}{
		"fast": {
			map[string]time.Duration{"one": time.Second, "two": time.Second, "three": time.Second},
			[]string{"0s running [one]", "3s completed []"},
		},
		"then slow": {
			map[string]time.Duration{"one": 2 * time.Second, "two": 3 * time.Second, "three": time.Hour},
			[]string{"0s running [one]", "10s running [three]", "1h0m5s completed []"},
		},
		"slow": {
			map[string]time.Duration{"one": time.Hour, "two": time.Hour, "three": time.Hour},
			[]string{"0s running [one]", "1h0m0s running [two]", "2h0m0s running [three]", "3h0m0s completed []"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{team: newTeam(phase("one", "a"), phase("two", "b"), phase("three", "c")), attributes: true}
			var published []string
			env := s.playFrom(t, workflows.SessionInput{
				Version: workflows.LogicVersion,
				Start:   session.Start{Store: "s", Workspace: "input-root"},
			}, func(env *testsuite.TestWorkflowEnvironment) {
				began := env.Now()
				for phase, d := range expected.work {
					env.OnActivity(string(activities.RoundName), mock.Anything,
						mock.MatchedBy(func(in activities.RoundInput) bool { return in.Phase == phase })).
						After(d).Return(s.run)
				}
				env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
					set := args.Get(0).(temporal.SearchAttributes)
					state, _ := set.GetKeyword(workflows.AttributeStatus)
					phases, _ := set.GetKeywordList(workflows.AttributePhase)
					published = append(published, fmt.Sprint(env.Now().Sub(began).Round(time.Second), " ", state, " ", phases))
				}).Return(nil)
			})
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, expected.published, published)
		})
	}
}

// TestManyOpenPhasesFitIntoTheirAttribute: Temporal terminates a session with one of more than 2,048 bytes.
func TestManyOpenPhasesFitIntoTheirAttribute(t *testing.T) {
	t.Parallel()
	var wide []spec.Phase
	for i := range 45 {
		wide = append(wide, spec.Phase{
			Name: fmt.Sprintf("p%02d%s", i, strings.Repeat("x", 60)), Needs: []string{},
			Personas: []string{"a"},
		})
	}
	s := &stage{team: newTeam(wide...), attributes: true}
	most := 0
	env := s.playFrom(t, workflows.SessionInput{
		Version: workflows.LogicVersion,
		Start:   session.Start{Store: "s", Workspace: "input-root"},
	}, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
			phases, _ := args.Get(0).(temporal.SearchAttributes).GetKeywordList(workflows.AttributePhase)
			list, err := json.Marshal(phases)
			require.NoError(t, err)
			most = max(most, len(list))
		}).Return(nil)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Greater(t, most, 1500)
	require.LessOrEqual(t, most, 2048)
}

// limit is what no payload may exceed.
const limit = 1500 * 1000

// large is where a session stores its large values.
func large(t *testing.T) (files *cas.Store, register func(*testsuite.TestWorkflowEnvironment)) {
	t.Helper()
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st.Content, func(env *testsuite.TestWorkflowEnvironment) {
		boundaries := &activities.Boundaries{Files: st.Content, Observer: (*telemetry.Telemetry)(nil).Recorder()}
		env.RegisterActivityWithOptions(boundaries.StoreValue, activity.RegisterOptions{Name: string(activities.StoreValueName)})
		env.RegisterActivityWithOptions(func(ctx context.Context, in activities.ReadValueInput) ([]byte, error) {
			part, err := boundaries.ReadValue(ctx, in)
			require.Less(t, len(part), limit)
			return part, err
		}, activity.RegisterOptions{Name: string(activities.ReadValueName)})
	}
}

// TestStateThatIsTooLargeForAPayload: a session with 5 phases of 64 personas each, with as much text as they may have, is
// admitted with its earlier work, waits for people and continues as new. No payload comes near Temporal's limit of 2 MB.
func TestStateThatIsTooLargeForAPayload(t *testing.T) {
	t.Parallel()
	tm := patient()
	s := &stage{}
	for p := range 5 {
		var personas []string
		for i := range 64 {
			personas = append(personas, fmt.Sprintf("persona-%d-%d", p, i))
		}
		tm.Phases = append(tm.Phases, spec.Phase{Name: fmt.Sprint("phase-", p), Personas: personas, Needs: []string{}})
		for i, persona := range personas {
			tm.Personas[persona] = spec.Persona{Role: "r", Agent: "agent", Instructions: "work"}
			if i == 0 {
				continue // one persona of each phase needs help
			}
			work := activities.RestoredWork{Output: "tree", CheckpointAssignment: session.CheckpointAssignment{
				AssignmentID: spec.AssignmentID{Phase: fmt.Sprint("phase-", p), Persona: persona},
			}}
			work.Status, work.Delta, work.Summary = session.Completed, "delta", strings.Repeat("s", session.MaxSummary)
			work.Decisions = map[string]string{}
			for d := range 7 {
				work.Decisions[fmt.Sprint("decision-", d)] = strings.Repeat("d", session.MaxDecisionValue)
			}
			s.partial = append(s.partial, work)
		}
	}
	s.team = tm
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		data, err := json.Marshal(in)
		require.NoError(t, err)
		require.Less(t, len(data), limit)
		return session.RoundResult{}, failedRound(failures.Auth, strings.Repeat("m", session.MaxMessage))
	}
	files, stored := large(t)
	first := s.play(t, stored, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(ctx context.Context, in activities.AdmitInput) (activities.Admission, error) {
			admission, err := s.admit(ctx, in)
			require.NoError(t, err)
			data, err := json.Marshal(admission)
			require.NoError(t, err)
			require.Greater(t, len(data), 2*limit-limit/2)
			blob, err := files.PutBlob(ctx, data)
			return activities.Admission{Large: &activities.LargeValue{Blob: blob, Size: len(data)}}, err
		}, activity.RegisterOptions{Name: string(activities.AdmitName), DisableAlreadyRegisteredCheck: true})
		env.RegisterDelayedCallback(func() { suggest(env) }, time.Hour)
	})
	in := next(t, first)
	data, err := json.Marshal(in)
	require.NoError(t, err)
	require.Less(t, len(data), limit)
	require.NotNil(t, in.Continued.Large)

	second := s.playFrom(t, in, stored, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			require.Len(t, status(t, env).Help, 5)
			for p := range 5 {
				resolve(env, session.Answer{Request: fmt.Sprintf("phase-%d.persona-%d-0.1", p, p), Action: session.AnswerSkip, By: "ann"})
			}
		}, time.Minute)
	})
	require.NoError(t, second.GetWorkflowError())
	require.Equal(t, session.Completed, status(t, second).Status)
}

// TestWorkOfAPhaseThatIsTooLargeForAPayload: JSON takes six bytes for some characters, so the decisions of one phase, each
// within its limit, may exceed a payload together. The merge and the rounds of a sequence get them by reference.
func TestWorkOfAPhaseThatIsTooLargeForAPayload(t *testing.T) {
	t.Parallel()
	for _, order := range []spec.Order{"", spec.OrderSequence} {
		t.Run("order "+string(order), func(t *testing.T) {
			t.Parallel()
			var personas []string
			for i := range 40 {
				personas = append(personas, fmt.Sprint("persona-", i))
			}
			p := phase("build", personas...)
			p.Order = order
			files, register := large(t)
			fits := func(in any) {
				data, err := json.Marshal(in)
				require.NoError(t, err)
				require.Less(t, len(data), limit)
			}
			s := &stage{team: newTeam(p)}
			s.round = func(in activities.RoundInput) (session.RoundResult, error) {
				fits(in)
				r := session.RoundResult{Output: "tree"}
				r.Delta, r.Decisions = "delta", map[string]string{}
				for d := range 7 {
					r.Decisions[fmt.Sprint("decision-", d)] = strings.Repeat("<", session.MaxDecisionValue)
				}
				return r, nil
			}
			merged := activities.PhaseWork{}
			s.merge = func(in activities.MergeInput) activities.MergeResult {
				fits(in)
				merged = in.Assignments
				return activities.MergeResult{Tree: "merged"}
			}
			env := s.play(t, register)
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, session.Completed, status(t, env).Status)
			require.Empty(t, merged.List)
			var stored activities.PhaseWork
			data, err := files.Blob(t.Context(), merged.Large.Blob)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &stored))
			require.Len(t, stored.List, len(personas))
		})
	}
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
