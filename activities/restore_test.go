package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// past is a session that has worked for a while and ended: the stage on which it
// is decided what of its work stands.
type past struct {
	t           *testing.T
	store       *store.Store
	dir         string
	team        spec.Team
	model       string
	requirement string
	workspace   spec.Digest
	head        spec.Digest
	run         int
	// meanwhile is done once, just before the next run is admitted.
	meanwhile func()
}

// relay is a team with a root, two personas side by side, and a sequence.
func relay() spec.Team {
	return spec.Team{
		Version: 1, Name: "relay",
		Personas: map[string]spec.Persona{
			"p": {Role: "p", Agent: "a", Instructions: "do"}, "q": {Role: "q", Agent: "a", Instructions: "do"},
		},
		Phases: []spec.Phase{
			{Name: "root", Personas: []string{"p"}},
			{Name: "pair", Personas: []string{"p", "q"}},
			{Name: "chain", Personas: []string{"p", "q"}, Order: spec.OrderSequence},
			{Name: "side", Needs: []string{"root"}, Personas: []string{"q"}},
		},
	}
}

// racing is a database in which work of an earlier run ends just before the next run is admitted.
type racing struct {
	activities.State
	meanwhile func()
}

func (r *racing) Admit(ctx context.Context, a state.Admission) (int64, error) {
	if end := r.meanwhile; end != nil {
		r.meanwhile = nil
		end()
	}
	return r.State.Admit(ctx, a)
}

// db is the database as the current run reaches it.
func (p *past) db() runs { return runs{p.store.State, p.run} }

func newPast(t *testing.T) *past {
	t.Helper()
	p := &past{t: t, dir: filepath.Join(t.TempDir(), "state"), team: relay().Resolved(), model: "m", requirement: "why"}
	var err error
	p.store, err = store.Create(p.dir, store.Options{Clock: time.Now})
	require.NoError(t, err)
	p.workspace, err = p.store.Content.PutManifest(t.Context(), cas.Manifest{})
	require.NoError(t, err)
	a := p.admit(session.Course{})
	require.Empty(t, a.Problems)
	return p
}

func (p *past) blob(data []byte) spec.Digest {
	p.t.Helper()
	name, err := p.store.Content.PutBlob(p.t.Context(), data)
	require.NoError(p.t, err)
	return name
}

// admit starts the session's next run from its newest checkpoint.
func (p *past) admit(course session.Course) activities.Admission {
	p.t.Helper()
	require.NoError(p.t, p.store.State.PutOffer(p.t.Context(), spec.Offer{
		Worker: "w", StartedAt: time.Now(), RenewedAt: time.Now(),
		Agents: map[string]spec.OfferedAgent{"a": {Kind: "command", Model: p.model}}, Checks: map[string]spec.Digest{},
	}))
	p.run++
	var a activities.Admission
	execute(p.t, admissions(p.store, &racing{p.db(), p.meanwhile}).Admit, activities.AdmitInput{
		Start: session.Start{
			Store: p.store.ID(), Team: p.blob(p.encoded()), Requirement: p.blob([]byte(p.requirement)), Workspace: p.workspace,
			Run: p.run, Base: p.head, Course: course,
		},
		OriginalRun: p.db().id(testRun), At: time.Now(),
	}, &a)
	if len(a.Problems) == 0 {
		p.head = a.Status.Checkpoint
	}
	return a
}

// encoded is the team as the store keeps it.
func (p *past) encoded() []byte {
	p.t.Helper()
	data, err := json.Marshal(p.team.Resolved())
	require.NoError(p.t, err)
	return data
}

func execute(t *testing.T, fn, in, out any) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: "x"})
	value, err := env.ExecuteActivity("x", in)
	require.NoError(t, err)
	if out != nil {
		require.NoError(t, value.Get(out))
	}
}

// work has an assignment done, as its round does it, and returns what the
// session knows of it then.
func (p *past) work(id spec.AssignmentID, input spec.Digest, beside ...session.CheckpointAssignment) activities.RestoredWork {
	p.t.Helper()
	agents := &agents{run: leave(id.Phase+"-"+id.Persona+".txt", fmt.Sprint(p.run))}
	var r session.RoundResult
	execute(p.t, roundsOf(p.store, p.db(), modelled{agents, p.model}).Run, activities.RoundInput{
		AssignmentID: id, Round: 1, Rounds: 2, Head: p.head, Input: input, Beside: activities.PhaseWork{List: beside},
	}, &r)
	return activities.RestoredWork{CheckpointAssignment: session.CheckpointAssignment{
		AssignmentID: id, BasedWork: r.BasedWork, AssignmentSummary: session.AssignmentSummary{
			Status: session.Completed, Rounds: 1, Attempts: 1, Failures: []session.AttemptFailure{}, Usage: r.Usage,
		},
	}, Output: r.Output}
}

type modelled struct {
	*agents
	model string
}

func (m modelled) Offered(string) spec.OfferedAgent {
	return spec.OfferedAgent{Kind: "command", Model: m.model}
}

// phase does a whole phase and adds its checkpoint; it returns the inputs of
// those that follow.
func (p *past) phase(name string, input spec.Digest, ready ...string) map[string]spec.Digest {
	p.t.Helper()
	phase, _ := p.team.Phase(name)
	var done []session.CheckpointAssignment
	for _, persona := range phase.Personas {
		var beside []session.CheckpointAssignment
		if phase.Order == spec.OrderSequence {
			beside = done
		}
		w := p.work(spec.AssignmentID{Phase: name, Persona: persona}, input, beside...)
		done = append(done, w.CheckpointAssignment)
		if phase.Order == spec.OrderSequence {
			input = w.Output
		}
	}
	at := p.boundary()
	for _, a := range done {
		*at.Status.Assignment(a.AssignmentID) = session.AssignmentStatus{Persona: a.Persona, AssignmentSummary: a.AssignmentSummary}
	}
	var out activities.Advanced
	execute(p.t, p.boundaries().Advance, activities.AdvanceInput{Boundary: at, Phase: name, Assignments: done, Unlocks: ready}, &out)
	require.Empty(p.t, out.Conflicts)
	p.head = out.Head
	return out.Inputs
}

// all does every phase.
func (p *past) all() {
	p.t.Helper()
	in := p.phase("root", p.workspace, "pair", "side")
	chain := p.phase("pair", in["pair"], "chain")
	p.phase("chain", chain["chain"])
	p.phase("side", in["side"])
}

// plan is the plan that the store has of the session, a word an assignment.
func (p *past) plan() string {
	p.t.Helper()
	e, err := p.store.State.Execution(p.t.Context(), p.key())
	require.NoError(p.t, err)
	var words []string
	for _, entry := range e.Plan {
		words = append(words, fmt.Sprintf("%s %s: %s", entry.Action, entry.AssignmentID, entry.Reason))
	}
	return strings.Join(words, "\n")
}

func TestWorkStandsAsLongAsItsBasisDoes(t *testing.T) {
	t.Parallel()
	const all = `restore root/p: finished before
restore pair/p: finished before
restore pair/q: finished before
restore chain/p: finished before
restore chain/q: finished before
restore side/q: finished before`
	for name, c := range map[string]struct {
		change func(*past)
		course session.Course
		plan   string
		todo   []string
	}{
		"nothing changed": {plan: all},
		"what only says how work is done": {
			change: func(p *past) {
				p.team.Retry.Attempts = 7
				p.team.Phases[1].Checks = []string{}
				p.team.Phases[0].Produces = []string{"*.md"}
			},
			plan: strings.Replace(all, "root/p: finished before",
				"root/p: finished before; changed without effect on finished work: produces", 1),
		},
		"the model of all": {
			change: func(p *past) { p.model = "another" },
			plan: `run root/p: changed: agent or model
run pair/p: depends on root, which runs again
run pair/q: depends on root, which runs again
run chain/p: depends on root, which runs again
run chain/q: depends on root, which runs again
run side/q: depends on root, which runs again`,
			todo: []string{"root", "pair", "chain", "side"},
		},
		"the instructions of the second in a pair": {
			change: func(p *past) {
				p.team.Personas["r"] = spec.Persona{Role: "q", Agent: "a", Instructions: "do", Attempts: 3}
				p.team.Phases[1].Personas = []string{"p", "r"}
				p.team.Phases[1].Integrator = "r"
			},
			plan: `restore root/p: finished before
restore pair/p: finished before; changed without effect on finished work: personas, integrator
run pair/r: not done yet
run chain/p: depends on pair, which runs again
run chain/q: depends on pair, which runs again
restore side/q: finished before
drop pair/q: no longer in the team; its work is dropped`,
			todo: []string{"pair", "chain"},
		},
		"the instructions of the second in a sequence, and of another phase": {
			change: func(p *past) {
				q := p.team.Personas["q"]
				q.Instructions = "do it well"
				p.team.Personas["q"] = q
			},
			plan: `restore root/p: finished before
restore pair/p: finished before
run pair/q: changed: instructions
run chain/p: depends on pair, which runs again
run chain/q: depends on pair, which runs again
run side/q: changed: instructions`,
			todo: []string{"pair", "chain", "side"},
		},
		"forced": {
			course: session.Course{Force: []string{"chain"}},
			plan: strings.ReplaceAll(strings.ReplaceAll(all, "restore chain/p: finished before", "run chain/p: forced"),
				"restore chain/q: finished before", "run chain/q: forced"),
			todo: []string{"chain"},
		},
		"given decisions": {
			course: session.Course{Given: map[string]string{"db": "x"}, Only: []string{"root"}},
			plan: `run root/p: changed: decisions
restore pair/p: kept although stale (depends on root, which runs again): its phase is not selected
restore pair/q: kept although stale (depends on root, which runs again): its phase is not selected
restore chain/p: kept although stale (depends on root, which runs again): its phase is not selected
restore chain/q: kept although stale (depends on root, which runs again): its phase is not selected
restore side/q: kept although stale (depends on root, which runs again): its phase is not selected`,
			todo: []string{"root"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPast(t)
			p.all()
			if c.change != nil {
				c.change(p)
			}
			a := p.admit(c.course)
			require.Empty(t, a.Problems)
			require.Equal(t, c.plan, p.plan())
			require.Equal(t, c.todo, a.Todo)
			for _, phase := range c.todo[:min(1, len(c.todo))] {
				require.NotEmpty(t, a.Inputs[phase], "what builds on nothing that runs may start at once")
			}
		})
	}
}

// TestUnfinishedPhases: what finished in a phase that had not is restored from
// its record, and costs of what had failed are carried on.
func TestUnfinishedPhases(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair")
	done := p.work(spec.AssignmentID{Phase: "pair", Persona: "p"}, in["pair"])
	a := p.admit(session.Course{})
	require.Contains(t, p.plan(), "restore pair/p: finished before, but not its phase\nrun pair/q: not done yet")
	require.Len(t, a.Partial, 1)
	require.Equal(t, done.Delta, a.Partial[0].Delta)
	require.Equal(t, done.Output, a.Partial[0].Output)
	require.Equal(t, in["pair"], a.Inputs["pair"])
	require.Equal(t, session.Restored, a.Status.Phases[0].Status)
	require.Equal(t, session.Pending, a.Status.Phases[1].Status)
	require.Equal(t, int64(10), a.Status.Phases[1].Assignments[0].Usage.InputTokens)

	// Forced to run, it is not taken for good by the run after.
	p.admit(session.Course{Force: []string{"pair"}})
	a = p.admit(session.Course{})
	require.Contains(t, p.plan(), "run pair/p: not finished")
	require.Equal(t, int64(10), a.Status.Phases[1].Assignments[0].Usage.InputTokens, "what it cost stays")
}

// testRun is the Temporal run of all activities in the test environment.
const testRun = "default-test-run-id"

// runs is the database as one of several Temporal runs reaches it: the test environment has the same run for all. A run that
// was not admitted is a Temporal reset.
type runs struct {
	activities.State
	number int
}

func (r runs) id(temporalRun string) string {
	if r.number < 2 {
		return temporalRun
	}
	return fmt.Sprint(temporalRun, "-", r.number)
}

func (r runs) Admit(ctx context.Context, a state.Admission) (int64, error) {
	a.TemporalRun = r.id(a.TemporalRun)
	if a.OriginalRun == "" || a.OriginalRun == testRun {
		a.OriginalRun = a.TemporalRun
	}
	return r.State.Admit(ctx, a)
}

func (r runs) Enter(ctx context.Context, s session.Key, temporalRun string) (int64, error) {
	return r.State.Enter(ctx, s, r.id(temporalRun))
}

func (r runs) IsFenced(ctx context.Context, s session.Key, temporalRun string) (bool, error) {
	return r.State.IsFenced(ctx, s, r.id(temporalRun))
}

func (r runs) PutBoundary(ctx context.Context, b state.Boundary) ([]session.Request, bool, error) {
	b.TemporalRun = r.id(b.TemporalRun)
	return r.State.PutBoundary(ctx, b)
}

func (r runs) OpenRound(ctx context.Context, o state.RoundOrder) (state.OpenedRound, error) {
	o.TemporalRun = r.id(o.TemporalRun)
	return r.State.OpenRound(ctx, o)
}

func (r runs) Undo(ctx context.Context, s session.Key, temporalRun string, ids []spec.AssignmentID) error {
	return r.State.Undo(ctx, s, r.id(temporalRun), ids)
}

func (r runs) Merge(ctx context.Context, s session.Key, phase, temporalRun, activity string,
	change func(*session.MergeLog),
) error {
	return r.State.Merge(ctx, s, phase, r.id(temporalRun), activity, change)
}

// boundary is what the workflow sends: the status as it knows it.
func (p *past) boundary() activities.Boundary {
	p.t.Helper()
	e, err := p.store.State.Execution(p.t.Context(), p.key())
	require.NoError(p.t, err)
	e.Checkpoint = p.head
	return activities.Boundary{At: time.Now().UTC().Truncate(time.Microsecond), Status: e.Status, FirstRun: testRun}
}

func (p *past) key() session.Key {
	return session.Key{Namespace: "default-test-namespace", Session: "default-test-workflow-id"}
}
