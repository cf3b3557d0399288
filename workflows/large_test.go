package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// blobs keeps blobs in memory.
type blobs struct {
	activities.Files
	mu  sync.Mutex
	all map[spec.Digest][]byte
}

func (b *blobs) PutBlob(_ context.Context, data []byte) (spec.Digest, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := cas.DigestOf(data)
	b.all[name] = data
	return name, nil
}

func (b *blobs) Blob(_ context.Context, name spec.Digest) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[name], nil
}

// limit is what no payload may exceed.
const limit = 1500 * 1000

// register has a session store its large values.
func (b *blobs) register(t *testing.T) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		boundaries := &activities.Boundaries{Files: b}
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
	tm, files := patient(), &blobs{all: map[spec.Digest][]byte{}}
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
	stored := files.register(t)
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
			files := &blobs{all: map[spec.Digest][]byte{}}
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
			env := s.play(t, files.register(t))
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, session.Completed, status(t, env).Status)
			require.Empty(t, merged.List)
			var stored activities.PhaseWork
			require.NoError(t, json.Unmarshal(files.all[merged.Large.Blob], &stored))
			require.Len(t, stored.List, len(personas))
		})
	}
}
