package session

import (
	"math/rand"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// done makes every assignment of the team finished, with a delta of its name.
func done(t spec.Team) map[spec.AssignmentID]CheckpointAssignment {
	out := map[spec.AssignmentID]CheckpointAssignment{}
	for _, id := range t.Assignments() {
		out[id] = CheckpointAssignment{AssignmentID: id, BasedWork: BasedWork{Work: Work{Delta: spec.Digest(id.String())}}}
	}
	return out
}

func TestSolitaryPersonaAnswersForItsPhase(t *testing.T) {
	t.Parallel()
	d := diamond()
	require.Equal(t, []string{"test"}, d.Contract(spec.AssignmentID{Phase: "right", Persona: "d"}).Checks)
	require.Empty(t, d.Contract(spec.AssignmentID{Phase: "left", Persona: "b"}).Checks, "the seal verifies it")
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

	integrated := finished[spec.AssignmentID{Phase: "left", Persona: "c"}]
	integrated.Integrated = []Work{{Delta: "mended"}}
	finished[spec.AssignmentID{Phase: "left", Persona: "c"}] = integrated
	steps = Steps(d, []string{"start", "left", "right"}, finished)
	require.Equal(t, "start/a left/b left/c left/c right/d", order(steps))
	require.False(t, Unsettled(steps, 1, 2), "the integrator had a say")

	steps = Steps(d, []string{"start", "left", "right", "join"}, finished)
	require.False(t, Unsettled(steps, 1, 4), "whoever joins two branches had a say")
	d.Phases[1].Order = spec.OrderSequence
	require.False(t, Unsettled(Steps(d, []string{"start", "left"}, done(d)), 1, 2), "one after the other in a phase")
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
	set := func(id spec.AssignmentID, value string) {
		a := finished[id]
		a.Decisions = map[string]string{"db": value}
		finished[id] = a
	}
	set(spec.AssignmentID{Phase: "start", Persona: "a"}, "sqlite")
	set(spec.AssignmentID{Phase: "left", Persona: "b"}, "mysql")
	merged, conflicts := MergeDecisions(nil, Steps(d, []string{"start", "left"}, finished))
	require.Equal(t, map[string]string{"db": "mysql"}, merged, "who knew the earlier choice may change it")
	require.Empty(t, conflicts)

	set(spec.AssignmentID{Phase: "left", Persona: "c"}, "postgres")
	_, conflicts = MergeDecisions(nil, Steps(d, []string{"start", "left"}, finished))
	require.Len(t, conflicts, 1)
	require.Equal(t, "decision db (left/b, left/c)", conflicts[0].String())

	set(spec.AssignmentID{Phase: "left", Persona: "c"}, "mysql")
	_, conflicts = MergeDecisions(nil, Steps(d, []string{"start", "left"}, finished))
	require.Empty(t, conflicts, "two who agree do not disagree")
}

func TestFewConflicts(t *testing.T) {
	t.Parallel()
	id := func(phase string) spec.AssignmentID { return spec.AssignmentID{Phase: phase, Persona: "dev"} }
	pair := func(path, a, b string) Conflict {
		return Conflict{Path: path, Between: []spec.AssignmentID{id(a), id(b)}}
	}
	few := FewConflicts([]Conflict{
		pair("x", "one", "three"), pair("x", "two", "three"), pair("y", "one", "two"),
		pair("z", "one", "two"), pair("zz", "one", "two"),
	})
	require.Equal(t, []spec.AssignmentID{id("one"), id("two"), id("three")}, few[0].Between,
		"the files have the version of the last one")
	require.Equal(t, "x (one/dev, two/dev, three/dev); y (one/dev, two/dev); z (one/dev, two/dev) and 1 more", ListConflicts(few))
	require.Equal(t, "keeps the version of three/dev and drops that of one/dev, two/dev (x); keeps the version of two/dev and "+
		"drops that of one/dev (y); "+
		"keeps the version of two/dev and drops that of one/dev (z) and 1 more", KeepsLater(few))
	dropped := KeptLater(few)
	require.Len(t, dropped, 4)
	require.Equal(t, "x: the version of one/dev, two/dev is dropped, only that of three/dev is kept: a person kept the later "+
		"version", dropped[0])

	var many []Conflict
	for i := range 1000 {
		many = append(many, pair(strings.Repeat("p", 900)+strconv.Itoa(i), "one", "two"))
	}
	few = FewConflicts(many)
	require.Len(t, few, MaxDropped)
	require.True(t, strings.HasSuffix(ListConflicts(few), " and 997 more"), ListConflicts(few))
	require.LessOrEqual(t, len(ListConflicts(few)), MaxMessage+20)
	require.Equal(t, "and 980 more", KeptLater(few)[MaxDropped])
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

func TestRecordSumsUp(t *testing.T) {
	t.Parallel()
	failed := AttemptReport{
		Attempt: 1, Failure: failures.Failure{Category: failures.Timeout, Message: "slow"},
		Usage: cost.Usage{InputTokens: 5},
	}
	rejected := AttemptReport{Attempt: 1, Failure: failures.Failure{Category: failures.InvalidRequest, Message: "no such model"}}
	r := Record{Assignment: spec.AssignmentID{Phase: "p", Persona: "a"}, Rounds: []RoundRecord{
		{Round: 1, RoundLog: RoundLog{Attempts: []AttemptReport{failed, failed}, Lost: 1}},
		{Round: 1, RoundLog: RoundLog{Attempts: []AttemptReport{rejected}}},
		{Round: 2, RoundLog: RoundLog{Attempts: []AttemptReport{failed}}, Result: &RoundResult{
			Usage:   cost.Usage{InputTokens: 12},
			Summary: "done",
		}},
	}}
	s := r.Status()
	require.Equal(t, 3, s.Rounds)
	require.Equal(t, 4, s.Attempts, "a rejected request is none")
	require.Equal(t, 1, s.LostWorkers)
	require.Len(t, s.Failures, 4)
	require.Equal(t, Completed, s.Status)
	r.Total = cost.Usage{InputTokens: 22}
	require.Equal(t, int64(22), r.Counted().Usage.Tokens(), "the calls have what the cut off attempts have cost")
}

// diamond is start -> (left, right) -> join, with two personas in left.
func diamond() spec.Team {
	return spec.Team{Version: 1, Name: "t", Personas: map[string]spec.Persona{
		"a": {Agent: "x"}, "b": {Agent: "x"}, "c": {Agent: "y"}, "d": {Agent: "y"}, "e": {Agent: "x"},
	}, Phases: []spec.Phase{
		{Name: "start", Personas: []string{"a"}},
		{Name: "left", Personas: []string{"b", "c"}, Checks: []string{"build"}},
		{Name: "right", Needs: []string{"start"}, Personas: []string{"d"}, Checks: []string{"test"}},
		{Name: "join", Needs: []string{"left", "right"}, Personas: []string{"e"}},
	}}.Resolved()
}

func randomTeam(random *rand.Rand) spec.Team {
	tm := spec.Team{Personas: map[string]spec.Persona{"a": {}, "b": {}, "c": {}}}
	names := []string{"p0", "p1", "p2", "p3", "p4"}
	for i, name := range names {
		p := spec.Phase{Name: name, Needs: []string{}, Personas: []string{"a", "b", "c"}[:1+random.Intn(3)]}
		for _, before := range names[:i] {
			if random.Intn(2) == 0 {
				p.Needs = append(p.Needs, before)
			}
		}
		if random.Intn(2) == 0 {
			p.Order = spec.OrderSequence
		}
		tm.Phases = append(tm.Phases, p)
	}
	return tm.Resolved()
}
