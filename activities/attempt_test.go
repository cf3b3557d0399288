package activities_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// sentBack is a desk whose assignment has done its work, a file a.txt, which a
// later phase has then sent back.
func sentBack(t *testing.T) (*desk, activities.RoundInput) {
	d := newDesk(t)
	d.team.Personas["tester"] = spec.Persona{Role: "r", Agent: "a", Instructions: "do", Attempts: 3}
	d.team.Phases = append(d.team.Phases, spec.Phase{
		Name: "test", Personas: []string{"tester"}, Produces: []string{"report.txt"}, SendsBack: &spec.SendsBack{To: "build", Times: 2},
	})
	d.team = d.team.Resolved()
	d.admit()
	done, err := d.round()
	require.NoError(t, err)
	rework := session.Rework{
		To: "build", From: spec.AssignmentID{Phase: "test", Persona: "tester"},
		Reasons: []string{"b.txt is missing", "a.txt is too short"}, Count: 1, Of: 2, At: time.Now(), Open: []string{"build", "test"},
	}
	kept := rework
	kept.Undone = []session.CheckpointAssignment{{
		AssignmentID: d.roundInput().AssignmentID, AssignmentSummary: session.AssignmentSummary{Status: session.Completed},
		BasedWork: session.BasedWork{Input: d.input, Work: session.Work{Delta: done.Delta}},
	}}
	c, err := d.store.Checkpoint(t.Context(), d.head)
	require.NoError(t, err)
	c.Reworks, c.Previous = []session.Rework{kept}, d.head
	d.head, err = putCheckpoint(t, d.store, d.key(), c)
	require.NoError(t, err)
	d.agents.runs = nil
	d.earlier++
	in := d.roundInput()
	in.Ordered, in.Because, in.Rework = 1, session.BecauseSentBack, &rework
	return d, in
}

const reasons = "- b.txt is missing\n- a.txt is too short\n"

// here lists what an attempt finds in its directory.
func here(t *testing.T, job session.Job) []string {
	t.Helper()
	entries, err := os.ReadDir(job.Tree)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWorkThatWasSentBackIsDoneOnFromItsFiles(t *testing.T) {
	t.Parallel()
	d, in := sentBack(t)
	d.agents.conversation, d.agents.continuable = spec.InDirectory, true
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, []string{"a.txt"}, here(t, job))
		require.True(t, job.Continues, "in its conversation")
		return leave("b.txt", "y")(ctx, job)
	}
	result, err := d.roundOf(in)
	require.NoError(t, err)
	f := d.agents.runs[0].Feedback
	require.Equal(t, failures.Rejected, f.Category)
	require.Equal(t, "test/tester sent the work back (1 of 2)", f.Message)
	require.Equal(t, reasons, f.Output)
	require.Equal(t, failures.RuleFor(failures.Rejected).Advice, f.Advice)
	require.True(t, f.Kept)
	require.Contains(t, f.Diff, "a.txt")
	require.Equal(t, failures.FromConversation, result.From)
	require.Equal(t, d.input, result.Input, "the work is still a function of its input")
	require.Equal(t, 2, result.Files, "so that it has the files of both passes")
	require.Equal(t, session.Order{Pass: 2, AnswersFrom: 2, Run: 1, Because: session.BecauseSentBack}, d.record().Rounds[1].Order)
}

func TestReasonsAreToldUntilTheWorkIsAccepted(t *testing.T) {
	t.Parallel()
	for category, found := range map[failures.Category][]string{
		failures.TestFailure:   {"a.txt", "b.txt"}, // the failed attempt's
		failures.InvalidOutput: {"a.txt"},          // what the pass has begun with
	} {
		t.Run(string(category), func(t *testing.T) {
			t.Parallel()
			d, in := sentBack(t)
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				out, err := leave("b.txt", "y")(ctx, job)
				require.NoError(t, err)
				return out, failures.Failf(category, "no good")
			}
			_, err := d.roundOf(in)
			requireType(t, err, session.RecoverableError)
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				require.Equal(t, found, here(t, job))
				return leave("c.txt", "z")(ctx, job)
			}
			result, err := d.roundOf(in)
			require.NoError(t, err)
			require.Equal(t, failures.FromFiles, result.From)
			f := d.agents.runs[1].Feedback
			require.Equal(t, category, f.Category)
			require.Equal(t, "test/tester sent the work back (1 of 2):\n"+reasons, f.SentBack)
		})
	}
}

func TestLaterPhasesAreToldOfARework(t *testing.T) {
	t.Parallel()
	d, in := sentBack(t)
	in.Phase, in.Persona, in.SendBacksLeft = "test", "tester", 1
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Empty(t, here(t, job))
		return leave("report.txt", "y")(ctx, job)
	}
	_, err := d.roundOf(in)
	require.NoError(t, err)
	brief := d.agents.runs[0]
	require.Equal(t, "test/tester sent the work of build back (1 of 2); it was done again since", brief.Feedback.Message)
	require.Equal(t, reasons, brief.Feedback.Output)
	require.Contains(t, brief.Feedback.Advice, "Do your work")
	require.Equal(t, &session.MaySendBack{To: "build", Left: 1}, brief.MaySendBack)
}

func TestResultMaySendWorkBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		phase string
		left  int
		mends bool
		fails string
	}{
		"where the phase may":                               {phase: "test", left: 1},
		"with none left, so that the session asks a person": {phase: "test"},
		"but not when it mends the merged tree": {
			phase: "test", mends: true, fails: "invalid_output: the result has sends_back, but this round fixes",
		},
		"and nowhere else": {
			phase: "build", fails: "invalid_output: the result has sends_back, but phase build has no sends_back in the team file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, in := sentBack(t)
			in.Phase, in.SendBacksLeft, in.Integrating, in.Rework, in.Ordered, in.Because = c.phase, c.left, c.mends, nil, 0, ""
			in.Persona = map[string]string{"test": "tester", "build": "dev"}[c.phase]
			if c.phase == "build" {
				in.Ordered, in.Because = 1, session.BecauseSentBack
			}
			d.agents.run = func(context.Context, session.Job) (session.Outcome, error) {
				return session.Outcome{Summary: "found", SendsBack: []string{"it does not build"}}, nil
			}
			result, err := d.roundOf(in)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				require.Nil(t, d.agents.runs[0].MaySendBack)
				return
			}
			require.NoError(t, err, "it is held to no contract")
			require.Equal(t, []string{"it does not build"}, result.SendsBack)
			require.Equal(t, &session.MaySendBack{To: "build", Left: c.left}, d.agents.runs[0].MaySendBack)
		})
	}
}

// manifest stores files.
func (d *desk) manifest(files map[string]string) spec.Digest {
	d.t.Helper()
	dir := d.t.TempDir()
	for name, text := range files {
		require.NoError(d.t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(d.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	empty, err := d.store.Content.Overlay(d.t.Context(), d.input, d.input)
	require.NoError(d.t, err)
	collected, err := d.store.Content.Collect(d.t.Context(), session.Collect{Base: empty.Output, Dir: dir})
	require.NoError(d.t, err, fmt.Sprint(files))
	return collected.Output
}

// dying is a database whose worker dies once, just after it has noted a step of the attempt.
type dying struct {
	activities.State
	after state.AttemptState
}

func (d *dying) PutRound(ctx context.Context, f state.Fence, a state.Assignment, r session.RoundRecord,
	c *session.Conversation,
) error {
	if err := d.State.PutRound(ctx, f, a, r, c); err != nil {
		return err
	}
	step := state.AttemptStarted
	switch {
	case r.Result != nil:
		step = state.AttemptRecorded
	case r.Ended != nil && r.Ended.Files != "":
		step = state.AttemptCollected
	case r.Ended != nil:
		step = state.AttemptAgentEnded
	}
	if step == d.after {
		d.after = ""
		panic(errKilled)
	}
	return nil
}

// TestAnAgentThatHasEndedIsPaidOnce: an execution after the death of a worker continues with the last step of the attempt. Only
// an agent whose files are gone runs again.
func TestAnAgentThatHasEndedIsPaidOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after     state.AttemptState
		elsewhere bool
		runs      int
	}{
		"ended":                                 {after: state.AttemptAgentEnded, runs: 1},
		"collected":                             {after: state.AttemptCollected, runs: 1},
		"recorded":                              {after: state.AttemptRecorded, runs: 1},
		"ended, and the next host is another":   {after: state.AttemptAgentEnded, elsewhere: true, runs: 2},
		"collected, and the next is another":    {after: state.AttemptCollected, elsewhere: true, runs: 1},
		"started, where nobody knows its end":   {after: state.AttemptStarted, runs: 1},
		"recorded, and the next is another":     {after: state.AttemptRecorded, elsewhere: true, runs: 1},
		"started, and the next host is another": {after: state.AttemptStarted, elsewhere: true, runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.team.Phases[0].Checks = []string{"good"}
			d.admit()
			checked := 0
			d.agents.check = func(session.CheckJob) error { checked++; return nil }
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				out, err := leave("a.txt", "x")(ctx, job)
				out.Log, out.Decisions = []byte("said"), map[string]string{"db": "sqlite"}
				return out, err
			}
			d.state = &dying{d.store.State, c.after}
			_, err := d.round()
			require.ErrorContains(t, err, "killed")
			if c.elsewhere {
				d.on(newHost(t))
			}
			result, err := d.round()
			require.NoError(t, err)
			require.Len(t, d.agents.runs, c.runs)
			require.Equal(t, int64(10*c.runs), d.costs().Usage.Tokens(), "usage is booked once")
			require.Equal(t, int64(10*c.runs), result.Total.Tokens())
			require.Equal(t, int64(10*c.runs), result.Usage.Tokens())
			require.Empty(t, d.calls(state.CallUnsettled))
			require.Zero(t, d.costs().Reserved)
			require.Equal(t, 1, result.Attempts)
			require.Equal(t, 1, checked)
			require.Equal(t, "done", result.Summary)
			require.Equal(t, map[string]string{"db": "sqlite"}, result.Decisions)
			require.Equal(t, 1, result.Files)
			require.Equal(t, failures.FromInput, result.From)
			require.NotNil(t, result.Basis)
			transcript, err := d.store.Content.Blob(t.Context(), result.Log)
			require.NoError(t, err)
			require.Contains(t, string(transcript), "said")
			require.Nil(t, d.record().Rounds[0].Ended)
		})
	}
}

// TestACheckThatEndsItsWorkerIsGivenUp, and pays its agent once.
func TestACheckThatEndsItsWorkerIsGivenUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Phases[0].Checks = []string{"good"}
	d.admit()
	checked := 0
	d.agents.check = func(job session.CheckJob) error {
		checked++
		require.NoFileExists(t, filepath.Join(job.Tree, "left.txt"), "what the last check has left is no work")
		_ = os.WriteFile(filepath.Join(job.Tree, "left.txt"), []byte("x"), 0o600)
		panic(errKilled)
	}
	var err error
	for range 7 {
		if _, err = d.round(); err == nil || checked == 0 {
			break
		}
	}
	requireType(t, err, session.UnrecoverableError)
	require.ErrorContains(t, err, "worker_lost: the worker was lost 5 times in a row")
	require.Len(t, d.agents.runs, 1)
	require.Equal(t, int64(10), d.costs().Usage.Tokens())
	require.Empty(t, d.record().Rounds[0].Attempts)
}

// TestReportedUsageIsSpentThoughTheWorkerIsKilled kills a program's worker three times.
// What was reported, in the journal or in the program's files, is spent in full and as
// it was, and the budget holds with it.
func TestReportedUsageIsSpentThoughTheWorkerIsKilled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Budget.Tokens = 60_000
	d.admit()
	d.agents.conversation = spec.InCalls // it books by itself
	used := cost.Usage{InputTokens: 3000, CacheReadTokens: 5000, OutputTokens: 1000}
	next := cost.Usage{InputTokens: 9000, OutputTokens: 1000}
	begin := func(ctx context.Context, job session.Job) session.Call {
		call, err := job.Calls.Begin(ctx, session.CallPlan{Whole: true, Agent: job.Agent, Estimate: cost.Usage{InputTokens: 20_000}})
		require.NoError(t, err)
		return call
	}
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		call := begin(ctx, job)
		require.NoError(t, call.Report(cost.Usage{InputTokens: 3000}, next))
		require.NoError(t, call.Report(used, next))
		return session.Outcome{}, errKilled
	}
	_, err := d.round()
	require.Error(t, err)
	require.Equal(t, used, d.calls(state.CallBegun)[0].Usage, "it is in the store while the program works")

	more := used.Add(cost.Usage{OutputTokens: 2000})
	d.agents.reported = &more
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, more, d.costs().Usage, "the files tell more")
		require.Equal(t, cost.Amount{Tokens: 12_000}, d.costs().Unsettled.Amount)
		begin(ctx, job)
		return session.Outcome{}, errKilled // before it was told anything
	}
	_, err = d.round()
	require.Error(t, err)

	less := cost.Usage{}
	d.agents.reported = &less
	var stopped error
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, more, d.costs().Usage)
		require.Equal(t, cost.Amount{Tokens: 24_000}, d.costs().Unsettled.Amount, "each request that was under way")
		call := begin(ctx, job)
		for used := (cost.Usage{}); stopped == nil; {
			used.OutputTokens += 5000
			stopped = call.Report(used, next)
		}
		return session.Outcome{}, stopped
	}
	_, err = d.round()
	require.ErrorContains(t, err, "token_budget")
	require.ErrorContains(t, stopped, "the attempt has used 30000 tokens", "11000 are spent and 24000 estimated, of 60000")
}

// TestAttemptThatIsResumedBeganWhenItBegan has the attempt's time and transcript go back
// to its first execution.
func TestAttemptThatIsResumedBeganWhenItBegan(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var begun []time.Time
	ends := []error{errKilled, errKilled, failures.Failf(failures.TestFailure, "no"), nil}
	d.agents.conversation = spec.InCalls
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		begun = append(begun, job.Begun)
		out, err := leave("a.txt", "x")(ctx, job)
		return out, errors.Join(err, ends[len(begun)-1])
	}
	before := time.Now().Truncate(time.Millisecond)
	for range 3 {
		_, err := d.round()
		require.Error(t, err)
	}
	result, err := d.round()
	require.NoError(t, err)
	require.True(t, begun[0].IsZero(), "nobody has begun it before")
	require.False(t, begun[1].Before(before))
	require.True(t, begun[1].Equal(begun[2]))
	require.True(t, begun[3].IsZero(), "it is another attempt")
	report := d.record().Rounds[0].Attempts[0]
	require.True(t, report.StartedAt.Equal(begun[1]))
	require.False(t, result.StartedAt.Before(report.EndedAt))
}

// errKilled ends an agent the way a kill does: nothing more is told.
var errKilled = errors.New("killed")

func TestToolsOfAnEarlierAttemptsAnswerAreKeptOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	worked := 0
	d.agents.conversation = spec.InCalls
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		stored, err := job.Calls.Stored(ctx, "")
		require.NoError(t, err)
		if stored == nil {
			call, err := job.Calls.Begin(ctx, session.CallPlan{Agent: job.Agent, Want: cost.Amount{Tokens: 1}})
			require.NoError(t, err)
			require.NoError(t, call.Settle(ctx, []byte("answer"), cost.Usage{OutputTokens: 1}))
			return session.Outcome{}, failures.Failf(failures.ResourceError, "the disk is full, before the tools could work")
		}
		if stored.Tools == nil {
			worked++
			require.NoError(t, job.Calls.KeepTools(ctx, stored.Call, []byte("tools")))
			return session.Outcome{}, errKilled
		}
		return leave("a.txt", "x")(ctx, job)
	}
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	_, err = d.round()
	require.ErrorContains(t, err, "killed")
	_, err = d.round()
	require.NoError(t, err)
	require.Equal(t, 1, worked)
}

func TestBasisNamesThePersonasAgentWhereverItsFallbackWorks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	own := spec.OfferedAgent{Kind: "anthropic", Model: "dear"}
	require.NoError(t, d.store.State.PutOffer(t.Context(), spec.Offer{
		Worker: "w", StartedAt: time.Now(), RenewedAt: time.Now(),
		Agents: map[string]spec.OfferedAgent{"a": own},
	}))
	d.agents.lacks = "a"
	result, err := d.round()
	require.NoError(t, err)
	persona := d.team.Personas["dev"]
	require.Equal(t, session.BasisOf(spec.AssignmentID{Phase: "build", Persona: "dev"}, persona, own, "why", d.input, nil),
		*result.Basis)
}

func TestForeignStoreIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var a activities.Admission
	execute(t, admissions(d.store, d.store.State).Admit, activities.AdmitInput{Start: session.Start{Store: "another"}}, &a)
	require.Len(t, a.Problems, 1)
	require.Contains(t, a.Problems[0], "belongs to store another")
}

// TestLossesAfterStoredAnswersAreForgiven: a conversation that gets further each time is not
// given up, though more workers are lost than may be in a row.
func TestLossesAfterStoredAnswersAreForgiven(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const losses = 7
	lost := 0
	d.agents.conversation = spec.InCalls
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		call, err := job.Calls.Begin(ctx, session.CallPlan{Agent: job.Agent, Want: cost.Amount{Tokens: 1}})
		require.NoError(t, err)
		require.NoError(t, call.Settle(ctx, []byte("answer"), cost.Usage{OutputTokens: 1}))
		if lost++; lost <= losses {
			return session.Outcome{}, errKilled
		}
		return leave("a.txt", "x")(ctx, job)
	}
	for range losses {
		_, err := d.round()
		require.ErrorContains(t, err, "killed")
	}
	result, err := d.round()
	require.NoError(t, err)
	require.Equal(t, losses, result.Lost)
	require.Equal(t, 1, result.Attempts)
}
