package spec

import (
	"encoding/json"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// diamond is start -> (left, right) -> join, with two personas in left.
func diamond() Team {
	return Team{Version: 1, Name: "t", Personas: map[string]Persona{
		"a": {Agent: "x"}, "b": {Agent: "x"}, "c": {Agent: "y"}, "d": {Agent: "y"}, "e": {Agent: "x"},
	}, Phases: []Phase{
		{Name: "start", Personas: []string{"a"}},
		{Name: "left", Personas: []string{"b", "c"}, Checks: []string{"build"}},
		{Name: "right", Needs: []string{"start"}, Personas: []string{"d"}, Checks: []string{"test"}},
		{Name: "join", Needs: []string{"left", "right"}, Personas: []string{"e"}},
	}}.Resolved()
}

func TestAgentsAndChecksOfATeam(t *testing.T) {
	t.Parallel()
	d := diamond()
	require.Equal(t, []string{"x", "y"}, d.AgentNames())
	require.Equal(t, []CheckUse{{"build", "y"}, {"test", "y"}}, d.CheckUses(),
		"a seal's checks run where the integrator's agent does")
}

func randomTeam(random *rand.Rand) Team {
	tm := Team{Personas: map[string]Persona{"a": {}, "b": {}, "c": {}}}
	names := []string{"p0", "p1", "p2", "p3", "p4"}
	for i, name := range names {
		p := Phase{Name: name, Needs: []string{}, Personas: []string{"a", "b", "c"}[:1+random.Intn(3)]}
		for _, before := range names[:i] {
			if random.Intn(2) == 0 {
				p.Needs = append(p.Needs, before)
			}
		}
		if random.Intn(2) == 0 {
			p.Order = OrderSequence
		}
		tm.Phases = append(tm.Phases, p)
	}
	return tm.Resolved()
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{1: 5, 2: 10, 3: 20, 4: 20, 100: 20} {
		require.Equal(t, want*time.Second, Backoff(textfmt.Duration(5*time.Second), textfmt.Duration(20*time.Second), n).Std(), n)
	}
	require.Equal(t, 3*time.Second, Backoff(textfmt.Duration(9*time.Second), textfmt.Duration(3*time.Second), 1).Std())
}

func TestAdmissible(t *testing.T) {
	t.Parallel()
	d := diamond()
	now := time.Unix(1000, 0)
	offer := func(worker string, age time.Duration, digest Digest, checks ...string) Offer {
		o := Offer{Worker: worker, RenewedAt: now.Add(-age), Agents: map[string]OfferedAgent{
			"x": {Digest: digest},
			"y": {Digest: digest},
		}, Checks: map[string]Digest{}}
		for _, c := range checks {
			o.Checks[c] = "c"
		}
		return o
	}
	agents, faults := d.Admissible([]Offer{offer("w", 0, "1", "build", "test")}, now)
	require.Empty(t, faults)
	require.Equal(t, map[string]OfferedAgent{"x": {Digest: "1"}, "y": {Digest: "1"}}, agents)
	_, faults = d.Admissible([]Offer{offer("w", time.Hour, "1", "build", "test")}, now)
	require.Contains(t, faults[0], "no worker serves this store")
	_, faults = d.Admissible([]Offer{offer("w", 0, "1", "build")}, now)
	require.Equal(t, []string{`no worker with agent "y" has check "test"; define it in that worker's file`}, faults)
	_, faults = d.Admissible([]Offer{offer("w", 0, "1", "build", "test"), offer("v", 0, "2")}, now)
	require.Contains(t, faults[0], `agent "x" has different definitions in workers v and w`)

	other := offer("v", 0, "1", "build", "test")
	other.Checks["test"] = "weaker"
	_, faults = d.Admissible([]Offer{offer("w", 0, "1", "build", "test"), other}, now)
	require.Equal(t, []string{`check "test" has different definitions in workers v and w; give them the same worker file`}, faults)
	require.Len(t, Differences([]Offer{offer("w", 0, "1", "build", "test"), other}, now), 1)
	other.Agents = map[string]OfferedAgent{"z": {Digest: "1"}}
	_, faults = d.Admissible([]Offer{offer("w", 0, "1", "build", "test"), other}, now)
	require.Empty(t, faults, "a worker without the team's agents runs none of its checks")
}

func TestTicketsNeedAWorkerThatMakesThem(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	d := Team{
		Version: 1, Name: "t", Personas: map[string]Persona{"dev": {Role: "r", Agent: "a"}},
		Phases: []Phase{{Name: "build", Personas: []string{"dev"}}}, Help: Help{Jira: &HelpJira{Project: "MD"}},
	}.Resolved()
	works := Offer{Worker: "w", RenewedAt: now, Agents: map[string]OfferedAgent{"a": {Digest: "1"}}}
	tells := Offer{Worker: "v", RenewedAt: now, Jira: true, Webhook: true}
	dead := tells
	dead.RenewedAt = now.Add(-time.Hour)
	_, faults := d.Admissible([]Offer{works, dead}, now)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "the team has help.jira, but no worker can create tickets; add `jira: {url: ")
	_, faults = d.Admissible([]Offer{works, tells}, now)
	require.Empty(t, faults)
	require.False(t, Webhook([]Offer{works, dead}, now))
	require.True(t, Webhook([]Offer{works, tells}, now))
}

func TestFallbackNeedsTheChecksOfTheWorkThatItMayDo(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	d := Team{
		Version: 1, Name: "t", Personas: map[string]Persona{"dev": {Role: "r", Agent: "dear", Fallback: true}},
		Phases: []Phase{{Name: "build", Personas: []string{"dev"}, Checks: []string{"test"}}},
	}.Resolved()
	own := Offer{
		Worker: "v", RenewedAt: now, Agents: map[string]OfferedAgent{"dear": {Digest: "1", Fallback: "cheap"}},
		Checks: map[string]Digest{"test": "c"},
	}
	other := Offer{Worker: "w", RenewedAt: now, Agents: map[string]OfferedAgent{"cheap": {Digest: "2"}}, Checks: map[string]Digest{}}
	_, faults := d.Admissible([]Offer{own, other}, now)
	require.Equal(t, []string{`no worker with agent "cheap" has check "test"; define it in that worker's file`}, faults)
	other.Checks["test"] = "c"
	_, faults = d.Admissible([]Offer{own, other}, now)
	require.Empty(t, faults)
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "../x", "a/b", ".x", "a.b", "-x", "ä", strings.Repeat("a", 64), "a b", "a\n"} {
		require.Error(t, CheckName(bad), bad)
	}
	require.NoError(t, CheckName("Backend_2-x"))
	for _, bad := range []string{"", "..", "a/b", "x.", strings.Repeat("a", 129), "a b"} {
		require.Error(t, CheckSession(bad), bad)
	}
	require.NoError(t, CheckSession("MD-123.retry_2"))
}

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
