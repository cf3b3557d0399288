package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/worker/telemetry"
)

// desk is a store with an admitted session of one persona in one phase.
type desk struct {
	t      *testing.T
	store  *store.Store
	agents *agents
	team   spec.Team
	head   spec.Digest
	input  spec.Digest
	// breakers, if not nil, are others than those of the store.
	breakers activities.Breakers
	// state is nil where it is the store's, and heartbeats where the test environment hears of rounds.
	state      activities.State
	heartbeats activities.Heartbeats
	// logger is nil where no line matters.
	logger *slog.Logger
	// holdSlot is for how long an outage keeps the slot; zero: a minute.
	holdSlot time.Duration
	// files are the store's, or stand between it and the rounds.
	files activities.Files
	// workDirs are those of the host, or stand between them and the rounds.
	workDirs activities.WorkDirs
	// signals is nil where nobody listens.
	signals activities.Signals
	// earlier counts the activities that the session has executed before.
	earlier int
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	d := &desk{
		t: t, store: st, workDirs: workDirs(st), agents: &agents{run: leave("a.txt", "x")},
	}
	d.team = spec.Team{
		Version: 1, Name: "t", Personas: map[string]spec.Persona{"dev": {Role: "r", Agent: "a", Instructions: "do"}},
		Phases: []spec.Phase{{Name: "build", Personas: []string{"dev"}, Produces: []string{"*.txt"}}},
		Retry:  spec.Retry{Initial: textfmt.Duration(time.Millisecond), Patience: new(textfmt.Duration)}, // providers' failures count
	}.Resolved()
	d.admit()
	return d
}

// workDirs are the directories that a store's agents work in.
func workDirs(st *store.Store) *workdir.Dirs {
	return workdir.New(workdir.Options{Root: workdir.DefaultRoot(st.Dir()), MaxWritten: 10e9})
}

// admit writes the first checkpoint for the desk's team.
func (d *desk) admit() {
	d.t.Helper()
	ctx := d.t.Context()
	data, err := json.Marshal(d.team)
	require.NoError(d.t, err)
	blob, err := d.store.Content.PutBlob(ctx, data)
	require.NoError(d.t, err)
	requirement, err := d.store.Content.PutBlob(ctx, []byte("why"))
	require.NoError(d.t, err)
	d.input, err = d.store.Content.PutManifest(ctx, cas.Manifest{})
	require.NoError(d.t, err)
	require.NoError(d.t, d.store.State.PutOffer(ctx, spec.Offer{
		Worker: "w", StartedAt: time.Now(), RenewedAt: time.Now(), Agents: map[string]spec.OfferedAgent{"a": {Digest: "d"}},
		Checks: map[string]spec.Digest{"good": "d"},
	}))
	var a activities.Admission
	execute(d.t, admissions(d.store, d.store.State).Admit, activities.AdmitInput{Start: session.Start{
		Store: d.store.ID(), Team: blob, Requirement: requirement, Workspace: d.input, Run: 1,
	}}, &a)
	require.Empty(d.t, a.Problems)
	d.head = a.Status.Checkpoint
}

// nobody records nothing.
var nobody = (*telemetry.Telemetry)(nil).Recorder()

// admissions admit sessions of a store.
func admissions(st *store.Store, db activities.State) *activities.Admissions {
	return &activities.Admissions{
		Files: st.Content, Sessions: st, State: db, SearchAttributes: none{}, Clock: time.Now, Observer: nobody,
	}
}

type none struct{}

func (none) Ready(context.Context) bool { return false }

// round executes the one round of the one assignment, as Temporal would after
// attempts executions before it.
func (d *desk) round(options ...func(*testsuite.TestActivityEnvironment)) (session.RoundResult, error) {
	d.t.Helper()
	return d.roundOf(d.roundInput(), options...)
}

// roundInput asks for the first round of the one assignment.
func (d *desk) roundInput() activities.RoundInput {
	return activities.RoundInput{
		AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}, Round: 1, Rounds: 2, Head: d.head, Input: d.input,
	}
}

func (d *desk) roundOf(in activities.RoundInput, options ...func(*testsuite.TestActivityEnvironment)) (session.RoundResult,
	error,
) {
	d.t.Helper()
	rounds := roundsOf(d.store, d.store.State, d.agents)
	rounds.WorkDirs, rounds.HoldSlot, rounds.Signals = d.workDirs, d.holdSlot, d.signals
	if d.breakers != nil {
		rounds.Breakers = d.breakers
	}
	if d.state != nil {
		rounds.State = d.state
	}
	if d.heartbeats != nil {
		rounds.Heartbeats = d.heartbeats
	}
	if d.files != nil {
		rounds.Files = d.files
	}
	var suite testsuite.WorkflowTestSuite
	if d.logger != nil {
		suite.SetLogger(log.NewStructuredLogger(d.logger))
	}
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(rounds.Run)
	for _, o := range options {
		o(env)
	}
	env.RegisterActivity(d.breathe)
	for range d.earlier { // another activity than the one before: ids are counted
		_, err := env.ExecuteActivity(d.breathe)
		require.NoError(d.t, err)
	}
	var result session.RoundResult
	value, err := env.ExecuteActivity(rounds.Run, in)
	if err != nil {
		return result, err
	}
	return result, value.Get(&result)
}

// roundsOf are the rounds of a store's worker.
func roundsOf(st *store.Store, db activities.State, a activities.Agents) *activities.Rounds {
	return &activities.Rounds{
		Files: st.Content, WorkDirs: workDirs(st), Sessions: st, State: db, Agents: a, Heartbeats: sdkHeartbeats{},
		Breakers: &breaker.Breakers{State: st.State}, Observer: nobody,
		Clock: func() time.Time { return time.Now().Truncate(time.Microsecond) }, LostLimit: 5, Drain: time.Millisecond,
	}
}

// sdkHeartbeats has the test environment hear of rounds.
type sdkHeartbeats struct{}

func (sdkHeartbeats) Beat(ctx context.Context, beat activities.Heartbeat) error {
	activity.RecordHeartbeat(ctx, beat)
	return nil
}

// breathe is an activity that does nothing.
func (*desk) breathe(context.Context) error { return nil }

func (d *desk) record() session.Record {
	d.t.Helper()
	r, err := d.store.State.Record(d.t.Context(),
		state.Assignment{Key: d.key(), AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}})
	require.NoError(d.t, err)
	return r
}

// key is the session as the test environment names it.
func (d *desk) key() session.Key {
	return session.Key{Namespace: "default-test-namespace", Session: "default-test-workflow-id"}
}

// changeRound changes the assignment's first round, as its next execution could.
func (d *desk) changeRound(change func(*session.RoundRecord)) {
	d.t.Helper()
	r := d.record().Rounds[0]
	opened, err := d.store.State.OpenRound(d.t.Context(), state.RoundOrder{
		Assignment: d.dev(), TemporalRun: testRun, Round: r.Round, Activity: r.Activity, Seq: r.Seq, Holder: state.NewCallID(),
	})
	require.NoError(d.t, err)
	change(&r)
	require.NoError(d.t, d.store.State.PutRound(d.t.Context(), opened.Fence, d.dev(), r, opened.Record.Conversation))
}

// leave is an agent that leaves one file.
func leave(name, content string) func(context.Context, session.Job) (session.Outcome, error) {
	return func(_ context.Context, job session.Job) (session.Outcome, error) {
		return session.Outcome{Summary: "done", Usage: cost.Usage{InputTokens: 10}},
			os.WriteFile(filepath.Join(job.Tree, name), []byte(content), 0o600)
	}
}

func fail(c failures.Category) func(context.Context, session.Job) (session.Outcome, error) {
	return func(context.Context, session.Job) (session.Outcome, error) {
		return session.Outcome{Usage: cost.Usage{InputTokens: 3}, Log: []byte("said")}, failures.Failf(c, "no good")
	}
}

func requireType(t *testing.T, err error, kind string) *temporal.ApplicationError {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, kind, app.Type())
	return app
}

// TestWhatIsLeftOutIsNamed in a field of its own, however long the summary is, and to the next attempt.
func TestWhatIsLeftOutIsNamed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Personas["writer"] = spec.Persona{Role: "r", Agent: "a", Instructions: "do"}
	d.team.Phases[0].Personas = append(d.team.Phases[0].Personas, "writer")
	d.admit()
	long := strings.Repeat("x", session.MaxSummary)
	var failed error = failures.Failf(failures.Unknown, "no good")
	d.agents.run = func(_ context.Context, job session.Job) (session.Outcome, error) {
		pipe := filepath.Join(job.Tree, "pipe")
		_ = os.Remove(pipe)
		err := errors.Join(failed, syscall.Mkfifo(pipe, 0o600))
		for i := 0; i < 30 && failed == nil; i++ {
			err = errors.Join(err, syscall.Mkfifo(pipe+strconv.Itoa(i), 0o600))
		}
		return session.Outcome{Summary: long}, err
	}
	_, err := d.round()
	requireType(t, err, "RecoverableError")
	failed = nil
	in := d.roundInput()
	in.Beside.List = []session.CheckpointAssignment{{
		AssignmentID:      spec.AssignmentID{Phase: "build", Persona: "writer"},
		AssignmentSummary: session.AssignmentSummary{LeftOut: []string{"left out by ignore rules: b"}},
	}}
	result, err := d.roundOf(in)
	require.NoError(t, err)
	note := `left out, because it cannot be kept: "pipe": is a named pipe; only files and links can be kept`
	require.Len(t, result.LeftOut, 1)
	require.True(t, strings.HasPrefix(result.LeftOut[0], note) && strings.HasSuffix(result.LeftOut[0], " and 26 more"),
		result.LeftOut[0])
	transcript, err := d.store.Content.Blob(t.Context(), result.Log)
	require.NoError(t, err)
	require.Contains(t, string(transcript), `"pipe29": is a named pipe`, "the transcript names all")
	require.NotContains(t, result.Summary, note, "there is no room")
	require.Equal(t, result.LeftOut, d.record().Status().LeftOut)
	require.Equal(t, []string{"the last attempt: " + note, "build/writer: left out by ignore rules: b"}, d.agents.runs[1].LeftOut)
}

func TestFailuresAreCountedAndTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.run = fail(failures.TestFailure)
	in := d.roundInput()
	in.Note = "mind the tests"
	for attempt := 1; attempt <= 2; attempt++ {
		_, err := d.roundOf(in)
		app := requireType(t, err, session.RecoverableError)
		require.False(t, app.NonRetryable())
		require.Equal(t, time.Duration(attempt)*time.Millisecond, app.NextRetryDelay())
	}
	_, err := d.roundOf(in)
	app := requireType(t, err, session.UnrecoverableError)
	require.True(t, app.NonRetryable())
	var report activities.RoundFailure
	require.NoError(t, app.Details(&report))
	require.Len(t, report.Attempts, 3)
	require.Equal(t, int64(9), report.Total.InputTokens)
	require.Equal(t, []int{1, 2, 3}, []int{d.agents.runs[0].Attempt, d.agents.runs[1].Attempt, d.agents.runs[2].Attempt})
	require.Equal(t, &session.Feedback{Note: "mind the tests"}, d.agents.runs[0].Feedback, "also without a failure to tell of")
	require.Equal(t, "mind the tests", d.agents.runs[1].Feedback.Note)
	require.Equal(t, failures.TestFailure, d.agents.runs[1].Feedback.Category)
	require.NotEmpty(t, d.agents.runs[1].Feedback.Advice)
	log, err := d.store.Content.Blob(t.Context(), d.record().Rounds[0].Attempts[0].Log)
	require.NoError(t, err)
	require.Equal(t, "said", string(log))
}

func TestWorkThatLacksWhatItMustProduceFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.run = leave("a.md", "x")
	_, err := d.round()
	require.ErrorContains(t, err, "contract_violation: *.txt was neither created nor changed")
}

// putCheckpoint stores a checkpoint with its row.
func putCheckpoint(t *testing.T, s *store.Store, key session.Key, c session.Checkpoint) (spec.Digest, error) {
	t.Helper()
	row, err := s.StoreCheckpoint(t.Context(), key, c)
	require.NoError(t, err)
	return row.Digest, s.State.PutCheckpoints(t.Context(), c.Team.Name, row)
}

// agents plays the worker's agents in place of processes.
type agents struct {
	run   func(ctx context.Context, job session.Job) (session.Outcome, error)
	check func(job session.CheckJob) error
	// checkIn, if set, is called in place of check.
	checkIn func(ctx context.Context) error
	runs    []session.Brief
	// conversation is where it is kept.
	conversation spec.Conversation
	// gateway names the providers that it reaches through the gateway.
	gateway []string
	// lacks is an agent that the worker does not have.
	lacks string
	// continuable: there is one that can continue, noted as note has it.
	continuable bool
	note        session.Conversation
	// reserve is what an attempt may cost.
	reserve cost.Amount
	// breaker is how every agent's breaker is set.
	breaker spec.Breaker
	// secrets are what no artifact may hold.
	secrets *secrets.Set
	// reported is what a program's files tell of the call under way; nil: nothing.
	reported *cost.Usage
	// survives is why processes of an earlier attempt cannot be ended; nil: there are none.
	survives error
}

func (a *agents) Run(ctx context.Context, job session.Job) (session.Outcome, error) {
	a.runs = append(a.runs, job.Brief)
	out, err := a.attempt(ctx, job)
	if errors.Is(err, errKilled) {
		panic(err) // nobody notes how that ended
	}
	return out, err
}

func (a *agents) attempt(ctx context.Context, job session.Job) (session.Outcome, error) {
	if a.conversation == spec.InCalls { // it is paid by the call
		return a.run(ctx, job)
	}
	paid, err := job.Calls.Begin(ctx, session.CallPlan{Whole: true, Agent: job.Agent, Want: a.reserve, Least: a.reserve})
	if err != nil {
		return session.Outcome{}, err
	}
	out, err := a.run(ctx, job)
	return out, errors.Join(err, paid.Settle(ctx, nil, out.Usage))
}

func (a *agents) Check(ctx context.Context, job session.CheckJob) (session.Outcome, error) {
	if a.checkIn != nil {
		return session.Outcome{}, a.checkIn(ctx)
	}
	return session.Outcome{}, a.check(job)
}

func (a *agents) Offered(agent string) spec.OfferedAgent {
	if agent == a.lacks {
		return spec.OfferedAgent{}
	}
	return spec.OfferedAgent{Kind: "command", Conversation: a.conversation, Gateway: a.gateway}
}
func (a *agents) Breaker(agent string) spec.Breaker { return a.breaker.For(agent) }

func (a *agents) Conversation(string, session.WorkDir) (session.Conversation, bool) {
	return a.note, a.continuable
}

func (a *agents) ConversationFiles(string, string) []string {
	if a.conversation != spec.InDirectory {
		return nil
	}
	return []string{"talk/**"}
}

func (a *agents) NoteConversation(_ session.WorkDir, c session.Conversation) error {
	a.note, a.continuable = c, true
	return nil
}

func (a *agents) Reported(string, session.WorkDir, string) (used, estimate cost.Usage, ok bool) {
	if a.reported == nil {
		return used, estimate, false
	}
	return *a.reported, cost.Usage{InputTokens: 12_000}, true
}

func (a *agents) Sweep(session.WorkDir) error { return a.survives }

func (a *agents) Removed(session.WorkDir) (int64, bool) { return 0, false }

func (a *agents) EndStopped() {}

func (a *agents) Forget(session.WorkDir) error {
	a.continuable, a.note = false, session.Conversation{}
	return nil
}

func (a *agents) Keep(string) []string                         { return nil }
func (a *agents) FillsCaches(string, string, spec.Digest) bool { return false }
func (a *agents) Mask(text string) string                      { return text }
func (a *agents) Secrets() *secrets.Set                        { return a.secrets }

// dev is the desk's assignment.
func (d *desk) dev() state.Assignment {
	return state.Assignment{Key: d.key(), AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}}
}

// calls lists the assignment's calls; in a state, if one is given.
func (d *desk) calls(of ...state.CallState) (calls []state.Call) {
	d.t.Helper()
	all, err := d.store.State.Calls(d.t.Context(), d.dev())
	require.NoError(d.t, err)
	for _, c := range all {
		if len(of) == 0 || c.State == of[0] {
			calls = append(calls, c)
		}
	}
	return calls
}

// costs are the sums of the session's calls.
func (d *desk) costs() state.Cost {
	d.t.Helper()
	a, err := d.store.State.Account(d.t.Context(), d.key())
	require.NoError(d.t, err)
	return a.Of(spec.AssignmentID{})
}

func (d *desk) day() budget.Budget {
	d.t.Helper()
	day, err := d.store.State.Day(d.t.Context(), "t")
	require.NoError(d.t, err)
	return day.Budget
}

// other has another session of the team begin a call.
func (d *desk) other(tokens int64) (call string) {
	d.t.Helper()
	key := session.Key{Namespace: d.key().Namespace, Session: "other"}
	run, err := d.store.State.Admit(d.t.Context(), state.Admission{
		Key: key, TemporalRun: key.Session, OriginalRun: key.Session, Team: "t", Caps: budget.Caps(d.team),
	})
	require.NoError(d.t, err)
	attempt := state.AttemptKey{
		Assignment: state.Assignment{Key: key, AssignmentID: d.dev().AssignmentID}, Pass: 1, Round: 1,
		Attempt: 1,
	}
	want := cost.Amount{Tokens: tokens}
	n := state.NewCall{
		ID: state.NewCallID(), CallKey: state.CallKey{AttemptKey: attempt, Call: state.NextCall}, Fence: state.Fence{Run: run},
		Team: "t", Agent: "a", Want: want, Least: want, Estimated: want,
	}
	v, err := d.store.State.Begin(d.t.Context(), n)
	require.NoError(d.t, err)
	require.Nil(d.t, v.Refused)
	return n.ID
}
