package team

import (
	"encoding/json"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// done makes every assignment of the team finished, with a delta of its name.
func done(t Team) map[AssignmentID]CheckpointAssignment {
	out := map[AssignmentID]CheckpointAssignment{}
	for _, id := range t.Assignments() {
		out[id] = CheckpointAssignment{AssignmentID: id, Work: Work{Delta: Digest(id.String())}}
	}
	return out
}

func TestGraph(t *testing.T) {
	t.Parallel()
	d := diamond()
	require.Equal(t, []string{"start", "left", "right", "join"}, d.Topological())
	require.Equal(t, []string{"start", "left", "right"}, d.Ancestors("join"))
	require.Equal(t, []string{"start"}, d.Ancestors("right"))
	require.Empty(t, d.Ancestors("start"))
	require.Equal(t, []string{"x", "y"}, d.AgentNames())
	require.Equal(t, []CheckUse{{"build", "y"}, {"test", "y"}}, d.CheckUses(), "a seal's checks run where the integrator's agent does")
}

func TestSolitaryPersonaAnswersForItsPhase(t *testing.T) {
	t.Parallel()
	d := diamond()
	require.Equal(t, []string{"test"}, d.Contract(AssignmentID{Phase: "right", Persona: "d"}).Checks)
	require.Empty(t, d.Contract(AssignmentID{Phase: "left", Persona: "b"}).Checks, "the seal verifies it")
}

func TestUnsettledStepsAreThoseThatNobodyHasSeenBoth(t *testing.T) {
	t.Parallel()
	d := diamond()
	finished := done(d)
	steps := Steps(d, []string{"start", "left", "right"}, finished)
	require.Equal(t, "start/a left/b left/c right/d", order(steps))
	require.True(t, Unsettled(steps, 1, 2), "side by side in one phase")
	require.True(t, Unsettled(steps, 1, 3), "side by side in two phases")
	require.False(t, Unsettled(steps, 0, 3), "one after the other")

	integrated := finished[AssignmentID{Phase: "left", Persona: "c"}]
	integrated.Integrated = []Work{{Delta: "mended"}}
	finished[AssignmentID{Phase: "left", Persona: "c"}] = integrated
	steps = Steps(d, []string{"start", "left", "right"}, finished)
	require.Equal(t, "start/a left/b left/c left/c right/d", order(steps))
	require.False(t, Unsettled(steps, 1, 2), "the integrator had a say")

	steps = Steps(d, []string{"start", "left", "right", "join"}, finished)
	require.False(t, Unsettled(steps, 1, 4), "whoever joins two branches had a say")
}

func TestSequenceIsNeverUnsettled(t *testing.T) {
	t.Parallel()
	d := diamond()
	d.Phases[1].Order = OrderSequence
	steps := Steps(d, []string{"start", "left"}, done(d))
	require.False(t, Unsettled(steps, 1, 2))
}

func order(steps []Step) string {
	var names []string
	for _, s := range steps {
		names = append(names, s.By.String())
	}
	return strings.Join(names, " ")
}

func TestMergeDecisions(t *testing.T) {
	t.Parallel()
	d := diamond()
	finished := done(d)
	set := func(id AssignmentID, value string) {
		a := finished[id]
		a.Decisions = map[string]string{"db": value}
		finished[id] = a
	}
	set(AssignmentID{Phase: "start", Persona: "a"}, "sqlite")
	set(AssignmentID{Phase: "left", Persona: "b"}, "mysql")
	merged, conflicts := MergeDecisions(nil, Steps(d, []string{"start", "left"}, finished))
	require.Equal(t, map[string]string{"db": "mysql"}, merged, "who knew the earlier choice may change it")
	require.Empty(t, conflicts)

	set(AssignmentID{Phase: "left", Persona: "c"}, "postgres")
	_, conflicts = MergeDecisions(nil, Steps(d, []string{"start", "left"}, finished))
	require.Len(t, conflicts, 1)
	require.Equal(t, "decision db (left/b, left/c)", conflicts[0].String())

	set(AssignmentID{Phase: "left", Persona: "c"}, "mysql")
	_, conflicts = MergeDecisions(nil, Steps(d, []string{"start", "left"}, finished))
	require.Empty(t, conflicts, "two who agree do not disagree")
}

// TestStepsKnowTheirPast: whatever the graph, a step's knowledge is transitive
// and lies before it.
func TestStepsKnowTheirPast(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(1))
	for range 200 {
		tm := randomTeam(random)
		steps := Steps(tm, tm.Topological(), done(tm))
		for j, s := range steps {
			for i := range s.On {
				require.Less(t, i, j)
				for k := range steps[i].On {
					require.True(t, s.On[k], "what one knew who is known is known")
				}
			}
		}
	}
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

func TestMoneyIsExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]USD{
		"0": 0, "1": 1e9, "0.1": 1e8, "0.000000001": 1, "1e-3": 1e6, "-2.5": -2.5e9, "0.0000000004": 0, "0.0000000005": 1,
	} {
		var u USD
		require.NoError(t, json.Unmarshal([]byte(text), &u), text)
		require.Equal(t, want, u, text)
	}
	for _, bad := range []string{`"1"`, "1/3", "1e30", "true"} {
		var u USD
		require.Error(t, json.Unmarshal([]byte(bad), &u), bad)
	}
	var sum USD
	for range 10 {
		sum += 1e8
	}
	require.Equal(t, "1", sum.String())
	data, err := json.Marshal(Usage{CostUSD: 250_000_000})
	require.NoError(t, err)
	require.Contains(t, string(data), `"cost_usd":0.25`)
}

func TestUsageRefusesNonsense(t *testing.T) {
	t.Parallel()
	require.NoError(t, Usage{InputTokens: 5, CostUSD: 1}.Validate())
	require.ErrorContains(t, Usage{OutputTokens: -1}.Validate(), "output_tokens is -1")
	require.ErrorContains(t, Usage{InputTokens: 1 << 60}.Validate(), "input_tokens")
	require.Error(t, Usage{CostUSD: -1}.Validate())
}

func TestFailureTable(t *testing.T) {
	t.Parallel()
	for _, c := range Categories() {
		require.NotEmpty(t, RuleFor(c).Advice, c)
		require.NotEmpty(t, Failf(c, "m").Remedy(), c)
		require.NotEmpty(t, RuleFor(c).Breaker, c)
	}
	require.Equal(t, RuleFor(Unknown), RuleFor("never heard of"))
	require.False(t, Failf(Auth, "x").RetryAttempt())
	require.True(t, Failf(TestFailure, "x").RetryAttempt())
	final := Failf(TestFailure, "x")
	final.Final = true
	require.False(t, final.RetryAttempt())
	require.False(t, final.RetryRound())
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{1: 5, 2: 10, 3: 20, 4: 20, 100: 20} {
		require.Equal(t, want*time.Second, Backoff(Duration(5*time.Second), Duration(20*time.Second), n).Std(), n)
	}
	require.Equal(t, 3*time.Second, Backoff(Duration(9*time.Second), Duration(3*time.Second), 1).Std())
}

func TestAdmissible(t *testing.T) {
	t.Parallel()
	d := diamond()
	now := time.Unix(1000, 0)
	offer := func(worker string, age time.Duration, digest Digest, checks ...string) Offer {
		o := Offer{Worker: worker, RenewedAt: now.Add(-age), Agents: map[string]OfferedAgent{"x": {Digest: digest}, "y": {Digest: digest}}, Checks: map[string]Digest{}}
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
	require.Equal(t, []string{`check "test" is offered by no worker that has agent "y"; define it in that worker's file`}, faults)
	_, faults = d.Admissible([]Offer{offer("w", 0, "1", "build", "test"), offer("v", 0, "2")}, now)
	require.Contains(t, faults[0], `agent "x" is defined differently by workers v and w`)
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
	require.Contains(t, faults[0], "the team has help.jira, but no worker makes tickets; write `jira: {url: ")
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
	own := Offer{Worker: "v", RenewedAt: now, Agents: map[string]OfferedAgent{"dear": {Digest: "1", Fallback: "cheap"}}, Checks: map[string]Digest{"test": "c"}}
	other := Offer{Worker: "w", RenewedAt: now, Agents: map[string]OfferedAgent{"cheap": {Digest: "2"}}, Checks: map[string]Digest{}}
	_, faults := d.Admissible([]Offer{own, other}, now)
	require.Equal(t, []string{`check "test" is offered by no worker that has agent "cheap"; define it in that worker's file`}, faults)
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

func TestDecisionsAreBounded(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckDecisions(map[string]string{"db": "sqlite"}))
	require.ErrorContains(t, CheckDecisions(map[string]string{"a": strings.Repeat("x", 1025)}), "at most 1024")
	many := map[string]string{}
	for c := 'a'; c <= 'j'; c++ {
		many[string(c)] = strings.Repeat("x", 1000)
	}
	require.ErrorContains(t, CheckDecisions(many), "together")
	require.Error(t, CheckDecisions(map[string]string{"a/b": "x"}))
}

func TestCutsKeepRunesWhole(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ab", Shorten("ab", 2))
	for n := 3; n < 12; n++ {
		require.LessOrEqual(t, len(Shorten("äöüäöüäöü", n)), n)
		require.LessOrEqual(t, len(Tail("äöüäöüäöü", n)), n)
		require.True(t, strings.HasSuffix(Shorten("äöüäöüäöü", n), "…"))
		require.True(t, strings.HasPrefix(Tail("äöüäöüäöü", n), "…"))
	}
}

func TestRecordSumsUp(t *testing.T) {
	t.Parallel()
	failed := AttemptReport{Attempt: 1, Failure: Failure{Category: Timeout, Message: "slow"}, Usage: Usage{InputTokens: 5}}
	r := Record{Assignment: AssignmentID{Phase: "p", Persona: "a"}, Usage: Usage{InputTokens: 22}, Rounds: []RoundRecord{
		{Round: 1, RoundLog: RoundLog{Attempts: []AttemptReport{failed, failed}, Lost: 1}},
		{Round: 2, RoundLog: RoundLog{Attempts: []AttemptReport{failed}}, Result: &RoundResult{Usage: Usage{InputTokens: 12}, Summary: "done"}},
	}}
	s := r.Status()
	require.Equal(t, 2, s.Rounds)
	require.Equal(t, 4, s.Attempts)
	require.Equal(t, 1, s.LostWorkers)
	require.Len(t, s.Failures, 3)
	require.Equal(t, int64(22), s.Usage.Tokens())
	require.Equal(t, Completed, s.Status)
}
