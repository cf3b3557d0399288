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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// desk is a store with an admitted session of one persona in one phase.
type desk struct {
	// ahead is how far the clock of rounds is put forward, in nanoseconds.
	ahead  *atomic.Int64
	t      *testing.T
	store  *store.Store
	agents *agents
	team   spec.Team
	head   spec.Digest
	input  spec.Digest
	// breakers is nil where every round passes.
	breakers activities.Breakers
	// state is nil where it is the store's.
	state      activities.State
	heartbeats activities.Heartbeats
	// logger is nil where no line matters.
	logger *slog.Logger
	// onExceeded is what the session can do about its budget.
	onExceeded spec.OnExceeded
	// observer is nil where nobody listens.
	observer activities.Observer
	// holdSlot is for how long an outage keeps the slot; zero: a minute. random spreads its
	// waits; nil: math/rand does.
	holdSlot time.Duration
	random   func() float64
	// files are the store's, or stand between it and the rounds.
	files activities.Files
	// workDirs are those of the host, or stand between them and the rounds.
	workDirs activities.WorkDirs
	// signals is nil where nobody listens.
	signals activities.Signals
	// earlier counts the activities that the session has executed before.
	earlier int
	// run numbers the Temporal runs of the session. The first one is 1 or 0.
	run int
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	d := &desk{
		t: t, ahead: new(atomic.Int64), store: st, workDirs: workDirs(st), agents: &agents{run: leave("a.txt", "x")},
		heartbeats: sdkHeartbeats{},
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
	d.execute(admissions(d.store, d.db()).Admit, activities.AdmitInput{Start: session.Start{
		Store: d.store.ID(), Team: blob, Requirement: requirement, Workspace: d.input, Run: 1,
	}}, &a)
	require.Empty(d.t, a.Problems)
	d.head = a.Status.Checkpoint
}

// db is the database as the current Temporal run reaches it.
func (d *desk) db() runs { return runs{d.store.State, d.run} }

// resume continues the session in its next Temporal run.
func (d *desk) resume(course session.Course) {
	d.t.Helper()
	c, err := d.store.Checkpoint(d.t.Context(), d.head)
	require.NoError(d.t, err)
	requirement, err := d.store.Content.PutBlob(d.t.Context(), []byte(c.Requirement))
	require.NoError(d.t, err)
	d.run = max(d.run, 1) + 1
	var a activities.Admission
	d.execute(admissions(d.store, d.db()).Admit, activities.AdmitInput{
		Start: session.Start{
			Store: d.store.ID(), Team: c.Team.Blob, Requirement: requirement, Workspace: c.Workspace, Run: d.run, Base: d.head,
			Course: course,
		},
		OriginalRun: d.db().id(testRun), At: time.Now(),
	}, &a)
	require.Empty(d.t, a.Problems)
	d.head = a.Status.Checkpoint
}

// admissions admit sessions of a store.
func admissions(st *store.Store, db activities.State) *activities.Admissions {
	return &activities.Admissions{Files: st.Content, Sessions: st, State: db, SearchAttributes: none{}, Clock: time.Now}
}

type none struct{}

func (none) Ready(context.Context) bool { return false }

func (d *desk) execute(fn, in, out any) {
	d.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: "x"})
	value, err := env.ExecuteActivity("x", in)
	require.NoError(d.t, err)
	require.NoError(d.t, value.Get(out))
}

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
		OnExceeded: d.onExceeded,
	}
}

// now is the time, which a test may put forward, as a database stores it.
func (d *desk) now() time.Time {
	return time.Now().Add(time.Duration(d.ahead.Load())).Truncate(time.Microsecond)
}

func (d *desk) roundOf(in activities.RoundInput, options ...func(*testsuite.TestActivityEnvironment)) (session.RoundResult,
	error,
) {
	d.t.Helper()
	rounds := &activities.Rounds{
		Files: d.store.Content, WorkDirs: d.workDirs, Sessions: d.store, State: d.db(), Agents: d.agents, Breakers: d.breakers,
		Heartbeats: d.heartbeats, Observer: d.observer, HoldSlot: d.holdSlot, Random: d.random, Signals: d.signals, Clock: d.now,
		LostLimit: 5, Drain: time.Millisecond,
	}
	if d.state != nil {
		rounds.State = d.state
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

// putRound writes a round of the assignment's first order in the current run.
func (d *desk) putRound(r session.RoundRecord) {
	d.t.Helper()
	opened, err := d.db().OpenRound(d.t.Context(), state.RoundOrder{
		Assignment: d.dev(), TemporalRun: testRun, Round: r.Round,
		Holder: state.NewCallID(),
	})
	require.NoError(d.t, err)
	r.Order = opened.Order
	require.NoError(d.t, d.db().PutRound(d.t.Context(), opened.Fence, d.dev(), r, nil))
}

// changeRound changes the assignment's first round, as its next execution could.
func (d *desk) changeRound(change func(*session.RoundRecord)) {
	d.t.Helper()
	r := d.record().Rounds[0]
	opened, err := d.db().OpenRound(d.t.Context(), state.RoundOrder{
		Assignment: d.dev(), TemporalRun: testRun, Round: r.Round, Activity: r.Activity, Seq: r.Seq, Holder: state.NewCallID(),
	})
	require.NoError(d.t, err)
	change(&r)
	require.NoError(d.t, d.db().PutRound(d.t.Context(), opened.Fence, d.dev(), r, opened.Record.Conversation))
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
	for attempt := 1; attempt <= 2; attempt++ {
		_, err := d.round()
		app := requireType(t, err, session.RecoverableError)
		require.False(t, app.NonRetryable())
		require.Equal(t, time.Duration(attempt)*time.Millisecond, app.NextRetryDelay())
	}
	_, err := d.round()
	app := requireType(t, err, session.UnrecoverableError)
	require.True(t, app.NonRetryable())
	var report activities.RoundFailure
	require.NoError(t, app.Details(&report))
	require.Len(t, report.Attempts, 3)
	require.Equal(t, int64(9), report.Total.InputTokens)
	require.Equal(t, []int{1, 2, 3}, []int{d.agents.runs[0].Attempt, d.agents.runs[1].Attempt, d.agents.runs[2].Attempt})
	require.Nil(t, d.agents.runs[0].Feedback)
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
