package workflows_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
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

// TestPageShowsWhereTheWorkStands of each phase, while it is done and after it.
func TestPageShowsWhereTheWorkStands(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("one", "a"), phase("two", "b"))}
	var pages []string
	env := s.playFrom(t, workflows.SessionInput{
		Version: workflows.LogicVersion,
		Start:   session.Start{Store: "s", Workspace: "input-root"},
	}, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(string(activities.RoundName), mock.Anything, mock.Anything).After(time.Hour).Return(s.run)
		look := func() {
			value, err := env.QueryWorkflow("__temporal_workflow_metadata")
			require.NoError(t, err)
			var page sdkpb.WorkflowMetadata
			require.NoError(t, value.Get(&page))
			pages = append(pages, strings.Join(regexp.MustCompile(`(?m)^\| (one|two)/. \| \w+ \|`).FindAllString(page.GetCurrentDetails(),
				-1), ""))
		}
		env.RegisterDelayedCallback(look, time.Minute)
		env.RegisterDelayedCallback(look, time.Hour+time.Minute)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"| one/a | running || two/b | pending |", "| one/a | completed || two/b | running |"}, pages)
}
