package activities_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// reword changes what a persona is told, in one phase only: in the others p works in its place.
func (p *past) reword(phase int, persona string) {
	as := p.team.Personas[persona]
	as.Instructions += "!"
	p.team.Personas[persona] = as
	for i := range p.team.Phases {
		if other := &p.team.Phases[i]; i != phase && slices.Contains(other.Personas, persona) {
			other.Personas = slices.DeleteFunc(other.Personas, func(name string) bool { return name == persona || name == "p" })
			other.Personas, other.Integrator = append(other.Personas, "p"), "p"
		}
	}
}

// files stores a manifest of files with their own paths as content.
func (p *past) files(paths ...string) spec.Digest {
	p.t.Helper()
	m := cas.Manifest{}
	for _, path := range paths {
		m[path] = cas.Entry{SHA256: p.blob([]byte(path)), Size: int64(len(path))}
	}
	name, err := p.store.Content.PutManifest(p.t.Context(), m)
	require.NoError(p.t, err)
	return name
}

// TestHalfStaleSequence: what stands of a sequence hands its tree on.
func TestHalfStaleSequence(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.team.Personas["r"] = spec.Persona{Role: "r", Agent: "a", Instructions: "do", Attempts: 3}
	p.team.Phases = []spec.Phase{{
		Name: "chain", Needs: []string{}, Personas: []string{"p", "r"}, Order: spec.OrderSequence,
		Integrator: "r",
	}}
	p.head, p.run = "", 0
	p.admit(session.Course{})
	p.phase("chain", p.workspace)
	p.reword(0, "r")
	a := p.admit(session.Course{})
	require.Equal(t, "restore chain/p: finished before\nrun chain/r: changed: instructions", p.plan())
	require.Len(t, a.Partial, 1)
	files, err := p.store.Content.Manifest(t.Context(), a.Partial[0].Output)
	require.NoError(t, err)
	require.Equal(t, []string{"chain-p.txt"}, files.Paths())
}

// TestWorkOnFilesThatAreProtectedLater runs again, and no other work.
func TestWorkOnFilesThatAreProtectedLater(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.all()
	p.team.Phases[1].Protected, p.team.Phases[3].Protected = []string{"pair-q*"}, []string{"tests/**"}
	p.admit(session.Course{})
	require.Equal(t, `restore root/p: finished before
restore pair/p: finished before
run pair/q: changed files that are protected now: pair-q.txt
run chain/p: depends on pair, which runs again
run chain/q: depends on pair, which runs again
restore side/q: finished before`, p.plan())
}

// TestForkKeepsHalfAPhase: a fork has no records of what it shares, so its
// checkpoint keeps what stands of a phase that has yet to be done.
func TestForkKeepsHalfAPhase(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.all()
	fork := newPast(t)
	fork.store, fork.dir, fork.workspace = p.store, p.dir, p.workspace
	fork.team = relay().Resolved()
	fork.reword(1, "q")
	data := fork.encoded()
	in := activities.AdmitInput{
		Start: session.Start{
			Store: p.store.ID(), Team: p.blob(data), Requirement: p.blob([]byte("why")), Workspace: p.workspace,
			Run: 1, Base: p.head, Origin: &session.Origin{Session: "origin", Checkpoint: p.head},
		},
	}
	var a activities.Admission
	admitAs(t, "fork", admissions(p.store, p.db()).Admit, in, &a)
	require.Empty(t, a.Problems)
	require.Len(t, a.Partial, 1)
	require.Zero(t, a.Status.Phases[1].Assignments[0].Usage, "it was paid for by the origin")

	in.Run, in.Base, in.Origin, in.At = 2, a.Status.Checkpoint, nil, time.Now()
	in.OriginalRun = runs{nil, 2}.id(testRun)
	var again activities.Admission
	admitAs(t, "fork", admissions(p.store, runs{p.store.State, 2}).Admit, in, &again)
	require.Empty(t, again.Problems)
	require.Len(t, again.Partial, 1, "it is not forgotten by the next run")
	require.Equal(t, a.Partial[0].Delta, again.Partial[0].Delta)
	e, err := p.store.State.Execution(t.Context(), session.Key{Namespace: "default-test-namespace", Session: "fork"})
	require.NoError(t, err)
	require.Equal(t, "origin", e.Origin.Session)
}

// admitAs executes Admit for a session of another name.
func admitAs(t *testing.T, sessionID string, fn, in, out any) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: sessionID})
	env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: "x"})
	env.ExecuteWorkflow(func(ctx workflow.Context, in activities.AdmitInput) (a activities.Admission, err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		err = workflow.ExecuteActivity(ctx, "x", in).Get(ctx, &a)
		return a, err
	}, in)
	require.NoError(t, env.GetWorkflowError())
	require.NoError(t, env.GetWorkflowResult(out))
}

// TestRefusedResumeChangesNothing: what is refused neither fences nor discards.
func TestRefusedResumeChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair")
	p.work(spec.AssignmentID{Phase: "pair", Persona: "p"}, in["pair"])
	a := p.admit(session.Course{Supplied: []session.SuppliedWork{
		{Phase: "pair", Files: p.files("x"), Edit: true},
		{Phase: "root", Files: p.files("y"), Edit: true},
	}})
	require.Contains(t, a.Problems[0], "phase pair has no finished work to edit")
	p.run--
	p.admit(session.Course{})
	require.Contains(t, p.plan(), "restore pair/p: finished before, but not its phase")
}

// TestUnmergedPhaseIsNothingToBuildOn: all of its work stands, but nobody has
// merged and checked it.
func TestUnmergedPhaseIsNothingToBuildOn(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair")
	for _, persona := range []string{"p", "q"} {
		p.work(spec.AssignmentID{Phase: "pair", Persona: persona}, in["pair"])
	}
	a := p.admit(session.Course{Only: []string{"chain"}})
	require.Equal(t, []string{"chain"}, a.Todo)
	require.Equal(t, session.Pending, a.Status.Phases[1].Status)
	files, err := p.store.Content.Manifest(t.Context(), a.Inputs["chain"])
	require.NoError(t, err)
	require.Equal(t, []string{"root-p.txt"}, files.Paths())
	a = p.admit(session.Course{})
	require.Equal(t, []string{"pair", "chain", "side"}, a.Todo, "it is merged and checked when it is selected")
	require.Len(t, a.Partial, 2)
}

// TestRecordedSoloPhaseStands: a phase of one persona needs no merge, so that its
// record is enough, and what builds on it stands, too.
func TestRecordedSoloPhaseStands(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	before := p.head
	p.all()
	p.head = before // the checkpoints since are lost
	a := p.admit(session.Course{})
	require.Contains(t, p.plan(), "restore root/p: finished before")
	require.Contains(t, p.plan(), "restore side/q: finished before")
	require.Equal(t, []string{"pair", "chain"}, a.Todo, "a pair has to be merged and checked")
	require.Contains(t, p.plan(), "restore pair/p: finished before, but not its phase\nrestore pair/q")
}

// TestNewIntegratorKeepsWhatWasMended: what the one before had fixed, and a
// person's edit, stay in the tree.
func TestNewIntegratorKeepsWhatWasMended(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.all()
	p.admit(session.Course{
		Supplied: []session.SuppliedWork{{Phase: "pair", Files: p.files("edited"), Edit: true}},
		Only:     []string{"pair", "root", "side"},
	})
	p.team.Phases[1].Integrator = "p"
	a := p.admit(session.Course{Force: []string{"chain"}})
	require.Contains(t, p.plan(), "restore pair/q: finished before; changed without effect on finished work: integrator")
	files, err := p.store.Content.Manifest(t.Context(), a.Inputs["chain"])
	require.NoError(t, err)
	require.Contains(t, files.Paths(), "edited")
}

// TestCostOfWhatTheTeamNoLongerHas stays the session's.
func TestCostOfWhatTheTeamNoLongerHas(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.all()
	p.team.Phases = p.team.Phases[:3]
	a := p.admit(session.Course{})
	require.Equal(t, int64(10), a.Status.Dropped.InputTokens)
	costs, err := p.store.State.Costs(t.Context(), p.key(), "phase")
	require.NoError(t, err)
	require.Equal(t, int64(60), state.Sum(costs, spec.AssignmentID{}).Usage.InputTokens)
	a = p.admit(session.Course{})
	require.Equal(t, int64(10), a.Status.Dropped.InputTokens, "once")
}

// TestAlertsOfASessionStayRaised over its runs, also where one ended without a word.
func TestAlertsOfASessionStayRaised(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.all()
	raised := []session.Alert{{Rule: "cost_usd: 20", Value: 21, Threshold: 20, At: time.Unix(1, 0).UTC()}}
	statetest.Put(t, p.store.State, p.key(), func(e *session.Execution) { e.Alerts = raised })
	require.Equal(t, raised, p.admit(session.Course{}).Status.Alerts)
	e, err := p.store.State.Execution(t.Context(), p.key())
	require.NoError(t, err)
	require.Equal(t, raised, e.Alerts)
	require.Equal(t, raised, p.admit(session.Course{}).Status.Alerts)
}

// boundaries are those of the session's store.
func (p *past) boundaries() *activities.Boundaries {
	return &activities.Boundaries{Files: p.store.Content, Sessions: p.store, State: p.db(), Clock: time.Now, Observer: nobody}
}

// sendBack sends a phase's work back, with what builds on it.
func (p *past) sendBack(to string, open []string, left ...session.CheckpointAssignment) {
	p.t.Helper()
	var out activities.Reworked
	execute(p.t, p.boundaries().Rework, activities.ReworkInput{
		Boundary: p.boundary(), Left: left, Rework: session.Rework{To: to, By: "ada", Reasons: []string{"no"}, Open: open},
	}, &out)
	p.head = out.Head
}

// says keeps what a person has said.
func (p *past) says(a session.Answer) {
	p.t.Helper()
	var out activities.WrittenStatus
	execute(p.t, p.boundaries().WriteStatus, activities.WriteStatusInput{Boundary: p.boundary(), Answer: &a}, &out)
	p.head = out.Head
}

func (p *past) checkpoint() session.Checkpoint {
	p.t.Helper()
	c, err := p.store.Checkpoint(p.t.Context(), p.head)
	require.NoError(p.t, err)
	return c
}

// TestNotesOutliveTheRun: who continues is told what a person said last, also
// where finished work was sent back before, and where only the merged tree is to be fixed.
func TestNotesOutliveTheRun(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair")
	pair := p.phase("pair", in["pair"])
	require.Empty(t, pair)
	p.sendBack("pair", []string{"pair"})
	p.says(session.Answer{Request: "1", Phase: "pair", Persona: "p", Action: session.AnswerRetry, Note: "use the other port"})
	p.says(session.Answer{Request: "2", Phase: "pair", Persona: "p", Action: session.AnswerRetry})
	require.Equal(t, map[string]string{"pair/p": "use the other port"}, p.admit(session.Course{}).Notes)

	p = newPast(t)
	in = p.phase("root", p.workspace, "pair")
	p.work(spec.AssignmentID{Phase: "pair", Persona: "q"}, in["pair"])
	p.says(session.Answer{Request: "1", Phase: "pair", Persona: "q", Action: session.AnswerRetry, Note: "take both"})
	a := p.admit(session.Course{})
	require.Len(t, a.Partial, 1)
	require.Equal(t, map[string]string{"pair/q": "take both"}, a.Notes)
}

// TestUndoneWorkIsKeptOnce sends back a phase half of which was restored.
func TestUndoneWorkIsKeptOnce(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair")
	restored := p.work(spec.AssignmentID{Phase: "pair", Persona: "p"}, in["pair"])
	require.Len(t, p.admit(session.Course{}).Partial, 1)
	rest := p.work(spec.AssignmentID{Phase: "pair", Persona: "q"}, in["pair"])
	p.sendBack("root", []string{"root", "pair"}, restored.CheckpointAssignment, rest.CheckpointAssignment)
	var undone []string
	for _, a := range p.checkpoint().Reworks[0].Undone {
		undone = append(undone, a.String())
	}
	require.ElementsMatch(t, []string{"root/p", "pair/p", "pair/q"}, undone)
}

// TestForkPaysForNothingThatItsOriginHasUndone: the record of a fork adds up to what
// the fork has cost.
func TestForkPaysForNothingThatItsOriginHasUndone(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair")
	w := p.work(spec.AssignmentID{Phase: "pair", Persona: "p"}, in["pair"])
	w.Usage = cost.Usage{InputTokens: 7}
	p.sendBack("pair", []string{"pair"}, w.CheckpointAssignment)
	require.Equal(t, int64(17), p.checkpoint().Usage.Tokens())
	var a activities.Admission
	admitAs(t, "fork", admissions(p.store, p.db()).Admit, activities.AdmitInput{
		Start: session.Start{
			Store: p.store.ID(), Team: p.blob(p.encoded()), Requirement: p.blob([]byte(p.requirement)), Workspace: p.workspace,
			Run: 1, Base: p.head, Origin: &session.Origin{Session: "origin", Checkpoint: p.head},
		},
	}, &a)
	require.Empty(t, a.Problems)
	p.head = a.Status.Checkpoint
	require.Zero(t, p.checkpoint().Usage)
	require.Len(t, p.checkpoint().Reworks[0].Undone, 1)
}

// TestAdmissionWaitsForOffers: while the database was away, no worker could renew its offer. The session waits.
func TestAdmissionWaitsForOffers(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	require.NoError(t, p.store.State.PutOffer(t.Context(), spec.Offer{
		Worker: "w", StartedAt: time.Now(), RenewedAt: time.Now().Add(-spec.OfferLifetime),
		Agents: map[string]spec.OfferedAgent{"a": {Kind: "command"}},
	}))
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(admissions(p.store, p.db()).Admit, activity.RegisterOptions{Name: "admit"})
	_, err := env.ExecuteActivity("admit", activities.AdmitInput{Start: session.Start{
		Store: p.store.ID(), Team: p.blob(p.encoded()), Requirement: p.blob([]byte("why")), Workspace: p.workspace, Run: 1,
	}})
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, session.StoreUnusable, failed.Type())
	require.False(t, failed.NonRetryable())
}

// TestARestoredDatabaseAdmitsTheSessionAgain where the backup is older than the session's start: the next round and the next
// answer have rows to go to.
func TestARestoredDatabaseAdmitsTheSessionAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.state = restored(t)
	_, err := d.round()
	require.NoError(t, err)
	record, err := d.state.(*state.DB).Record(t.Context(), d.dev())
	require.NoError(t, err)
	require.Len(t, record.Rounds, 1)

	p := newPast(t)
	at := p.boundary()
	p.store.State = restored(t)
	var out activities.WrittenStatus
	execute(t, p.boundaries().WriteStatus, activities.WriteStatusInput{Boundary: at, Answer: &session.Answer{
		Request: "1", Phase: "root", Persona: "p", Action: session.AnswerRetry, Note: "again",
	}}, &out)
	e, err := p.store.State.Execution(t.Context(), p.key())
	require.NoError(t, err)
	require.Equal(t, out.Head, e.Checkpoint)
	require.Equal(t, at.Status.Team, e.Team)
}

// restored is a database that was restored from a backup without any session.
func restored(t *testing.T) *state.DB {
	t.Helper()
	st, err := store.Create(filepath.Join(t.TempDir(), "restored"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	return st.State
}
