package spec

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

func TestResolvedFillsInWhatTheFileLeavesOut(t *testing.T) {
	t.Parallel()
	in := Team{
		Personas: map[string]Persona{"a": {Attempts: 7}, "b": {}},
		Phases: []Phase{
			{Name: "one", Personas: []string{"a", "b"}},
			{Name: "two", Personas: []string{"b"}},
			{Name: "root", Personas: []string{"a", "b"}, Needs: []string{}, Order: OrderSequence, Integrator: "a"},
		},
	}
	out := in.Resolved()
	patience := textfmt.Duration(30 * time.Minute)
	require.Equal(t, Retry{
		Patience: &patience, OnOutage: OutageWait,
		Attempts: 3, Initial: textfmt.Duration(time.Second), Max: textfmt.Duration(5 * time.Second),
		Rounds: 2, RoundInitial: textfmt.Duration(5 * time.Second), RoundMax: textfmt.Duration(20 * time.Second),
	}, out.Retry)
	require.Equal(t, 7, out.Personas["a"].Attempts)
	require.Equal(t, 3, out.Personas["b"].Attempts)
	require.Equal(t, OnExceededStop, out.Budget.OnExceeded)
	require.Equal(t, HelpAsk, out.Help.Mode)
	require.Equal(t, []Phase{
		{Name: "one", Needs: []string{}, Personas: []string{"a", "b"}, Order: OrderParallel, Integrator: "b"},
		{Name: "two", Needs: []string{"one"}, Personas: []string{"b"}, Order: OrderParallel, Integrator: "b"},
		{Name: "root", Needs: []string{}, Personas: []string{"a", "b"}, Order: OrderSequence, Integrator: "a"},
	}, out.Phases)
	require.Equal(t, out, out.Resolved(), "once is enough")
	require.Nil(t, in.Phases[0].Needs, "the team itself stays as it is")
	require.Zero(t, in.Personas["b"].Attempts)
	require.Equal(t, DefaultTicketType, Team{Help: Help{Jira: &HelpJira{}}}.Resolved().Help.Jira.Type)
	require.Equal(t, "Task", Team{Help: Help{Jira: &HelpJira{Type: "Task"}}}.Resolved().Help.Jira.Type)
}

func TestWhoeverMayWaitForAPersonGivesUpSomeTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in   Team
		want textfmt.Duration
	}{
		"nothing to wait for": {Team{Help: Help{Mode: HelpFail}, Retry: Retry{OnOutage: OutageFail}}, 0},
		"no patience":         {Team{Help: Help{Mode: HelpFail}, Retry: Retry{Patience: new(textfmt.Duration)}}, 0},
		"a provider":          {Team{Help: Help{Mode: HelpFail}}, DefaultGiveUpAfter},
		"help":                {Team{Help: Help{Mode: HelpAsk}}, DefaultGiveUpAfter},
		"a budget":            {Team{Budget: Budget{OnExceeded: OnExceededAsk}}, DefaultGiveUpAfter},
		"an approval": {Team{
			Help: Help{Mode: HelpFail}, Retry: Retry{OnOutage: OutageFail}, Phases: []Phase{{Name: "one", Approve: Approval{Count: 1}}},
		}, 0},
		"a merge": {
			Team{Help: Help{Mode: HelpFail}, Retry: Retry{OnOutage: OutageFail}, Phases: []Phase{{Deliver: &Deliver{Merge: MergeAsk}}}},
			DefaultGiveUpAfter,
		},
		"a merge without a question": {
			Team{Help: Help{Mode: HelpFail}, Retry: Retry{OnOutage: OutageFail}, Phases: []Phase{{Deliver: &Deliver{Merge: MergeAuto}}}},
			0,
		},
		"its own": {Team{Help: Help{Mode: HelpAsk, GiveUpAfter: 5}}, 5},
	} {
		require.Equal(t, tt.want, tt.in.Resolved().Help.GiveUpAfter, name)
	}
}

func TestDefaultWaitsGiveWayToTheOneThatIsGiven(t *testing.T) {
	t.Parallel()
	second := textfmt.Duration(time.Second)
	for _, tt := range []struct{ initial, most, wantInitial, wantMost textfmt.Duration }{
		{0, 0, second, 5 * second},
		{10 * second, 0, 10 * second, 10 * second},
		{0, second / 2, second / 2, second / 2},
		{0, 3 * second, second, 3 * second},
		{2 * second, 3 * second, 2 * second, 3 * second},
	} {
		got := Team{Retry: Retry{Initial: tt.initial, Max: tt.most}}.Resolved().Retry
		require.Equal(t, []textfmt.Duration{tt.wantInitial, tt.wantMost}, []textfmt.Duration{got.Initial, got.Max})
	}
}

// TestEmptyNeedsSurviveTheBlob: a resolved team is stored as JSON and read again
// by a resume; a root must not come back as the follower of the phase before.
func TestEmptyNeedsSurviveTheBlob(t *testing.T) {
	t.Parallel()
	d := diamond()
	data, err := json.Marshal(d)
	require.NoError(t, err)
	var back Team
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, d, back)
	require.Equal(t, d, back.Resolved())
}

func TestOutlineHasNoProse(t *testing.T) {
	t.Parallel()
	d := diamond()
	d.Description = "prose"
	d.Personas["a"] = Persona{Agent: "x", Instructions: "prose"}
	data, err := json.Marshal(d.Outline())
	require.NoError(t, err)
	require.NotContains(t, string(data), "prose")
	require.Equal(t, "prose", d.Personas["a"].Instructions, "the team itself keeps it")
}

func TestPhaseSendsWorkBackOnceUnlessItSaysOtherwise(t *testing.T) {
	t.Parallel()
	tm := sound()
	tm.Phases[1].SendsBack, tm.Phases[2].SendsBack = &SendsBack{To: "design"}, &SendsBack{To: "design", Times: 3}
	require.Empty(t, tm.Problems())
	resolved := tm.Resolved()
	require.Equal(t, &SendsBack{To: "design", Times: 1}, resolved.Phases[1].SendsBack)
	require.Equal(t, &SendsBack{To: "design", Times: 3}, resolved.Phases[2].SendsBack)
	require.Zero(t, tm.Phases[1].SendsBack.Times, "what was parsed stays as it was")
}
