package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/workflows"
)

// stage plays the activities of a session: rounds succeed unless a test says
// otherwise, and everything that was asked for is kept in order.
type stage struct {
	team spec.Team
	// round answers a round in place of success; nil errors succeed.
	round func(in activities.RoundInput) (session.RoundResult, error)
	// merge answers a merge in place of success.
	merge func(in activities.MergeInput) activities.MergeResult
	// conflicts are what Advance finds for a phase.
	conflicts map[string][]session.Conflict
	// laterWins: Advance has an input for these phases, with the later versions.
	laterWins bool
	// course is what the session is asked to do.
	course session.Course
	// partial is the work that is at hand in phases that have yet to run.
	partial []activities.RestoredWork
	// webhook: somebody wants to hear of the session; told is what they have heard.
	webhook bool
	told    []activities.NotifyInput
	// before are the alerts of earlier runs.
	before []session.Alert
	// attributes: the namespace has Maestro's search attributes.
	attributes bool
	// unreachable: nobody can be told anything.
	unreachable bool
	// unapproved are phases that were finished before, and that nobody has approved.
	unapproved []string
	// approvals are those of their work so far.
	approvals map[string][]session.Approval
	// begun, if set, has the phases that are left to do, with what they start from.
	begun map[string]spec.Digest

	// advancing, if set, is called while a phase is advanced, which fails with its error.
	advancing func() error
	// began is when the session has.
	began time.Time

	// logs, if set, gets the session's log.
	logs io.Writer

	mu       sync.Mutex
	rounds   []activities.RoundInput
	merges   []activities.MergeInput
	advanced []activities.AdvanceInput
	closed   []activities.CloseInput
	// answers are what people have said, reworks what was sent back.
	answers []session.Answer
	reworks []activities.ReworkInput
	// writing, if set, is called while an answer is kept.
	writing func(in activities.WriteStatusInput)
	// telling, if set, is called while people are told something.
	telling func(in activities.NotifyInput)
	// onAdvance, if set, is called once a phase is advanced.
	onAdvance func(in activities.AdvanceInput)
}

func (s *stage) admit(ctx context.Context, in activities.AdmitInput) (activities.Admission, error) {
	if in.Continues {
		return activities.Admission{Status: session.Status{Run: in.Run, Checkpoint: "head-again"}}, nil
	}
	t := s.team.Resolved()
	first := session.NewStatus(activity.GetInfo(ctx).WorkflowExecution.ID, t)
	first.Status, first.Checkpoint, first.Alerts, first.Starter = session.Running, "head-init", s.before, in.Starter
	a := activities.Admission{
		Team: t.Outline(), Status: first,
		Todo: t.Topological(), Inputs: map[string]spec.Digest{}, Partial: s.partial,
		Unapproved: s.unapproved, Approvals: s.approvals, Webhook: s.webhook, SearchAttributes: s.attributes,
	}
	for _, p := range t.Phases {
		if len(p.Needs) == 0 {
			a.Inputs[p.Name] = in.Workspace
		}
	}
	if s.begun != nil {
		a.Inputs = s.begun
		a.Todo = slices.DeleteFunc(a.Todo, func(p string) bool { return s.begun[p] == "" })
	}
	return a, nil
}

func (s *stage) writeStatus(_ context.Context, in activities.WriteStatusInput) (activities.WrittenStatus, error) {
	if s.writing != nil {
		s.writing(in)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.Answer == nil {
		return activities.WrittenStatus{}, nil
	}
	s.answers = append(s.answers, *in.Answer)
	return activities.WrittenStatus{Head: "head-" + spec.Digest(in.Answer.Request), Nothing: "nothing"}, nil
}

func (s *stage) sendBack(_ context.Context, in activities.ReworkInput) (activities.Reworked, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reworks = append(s.reworks, in)
	return activities.Reworked{
		Head:  spec.Digest(fmt.Sprintf("head-rework-%d", len(s.reworks))),
		Input: spec.Digest("input-" + in.Rework.To),
	}, nil
}

func (s *stage) notify(_ context.Context, in activities.NotifyInput) (out activities.Notified, err error) {
	if s.telling != nil {
		s.telling(in)
	}
	if s.unreachable {
		return out, errors.New("nobody can be reached")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, in)
	if r := in.Notice.Request; r != nil && in.Jira != nil {
		out.Fingerprint = "of " + r.Phase
	}
	return out, nil
}

func (s *stage) run(_ context.Context, in activities.RoundInput) (session.RoundResult, error) {
	s.mu.Lock()
	s.rounds = append(s.rounds, in)
	s.mu.Unlock()
	if s.round != nil {
		if result, err := s.round(in); err != nil || result.Delta != "" {
			return result, err
		}
	}
	return success(in), nil
}

func success(in activities.RoundInput) session.RoundResult {
	id := fmt.Sprintf("%s.%s.%d", in.Phase, in.Persona, in.Round)
	return session.RoundResult{
		BasedWork:   session.BasedWork{Input: in.Input, Work: session.Work{Delta: spec.Digest("delta-" + id)}},
		Output:      spec.Digest("tree-" + id),
		RoundReport: session.RoundReport{Total: cost.Usage{InputTokens: 100, OutputTokens: 10}}, Attempts: 1,
	}
}

func (s *stage) merged(_ context.Context, in activities.MergeInput) (activities.MergeResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.merges = append(s.merges, in)
	if s.merge != nil {
		return s.merge(in), nil
	}
	return activities.MergeResult{Tree: spec.Digest("merged-" + in.Phase)}, nil
}

func (s *stage) advance(_ context.Context, in activities.AdvanceInput) (activities.Advanced, error) {
	if s.advancing != nil {
		if err := s.advancing(); err != nil {
			return activities.Advanced{}, err
		}
	}
	out := s.advancedTo(in)
	if s.onAdvance != nil {
		s.onAdvance(in) // without the lock: it may wait for a round
	}
	return out, nil
}

func (s *stage) advancedTo(in activities.AdvanceInput) activities.Advanced {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanced = append(s.advanced, in)
	out := activities.Advanced{
		Head: spec.Digest("head-" + in.Phase), Inputs: map[string]spec.Digest{},
		Conflicts: map[string][]session.Conflict{}, Merged: map[string]spec.Digest{},
	}
	for _, phase := range in.Unlocks {
		if c := s.conflicts[phase]; len(c) > 0 {
			if out.Conflicts[phase] = c; s.laterWins {
				out.Merged[phase] = spec.Digest("merged-" + phase)
			}
			continue
		}
		out.Inputs[phase] = spec.Digest("input-" + phase)
	}
	if c := s.conflicts[in.Phase]; in.NoneLeft && len(c) > 0 {
		out.Conflicts[in.Phase] = c
	}
	return out
}

func (s *stage) close(_ context.Context, in activities.CloseInput) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = append(s.closed, in)
	return nil
}

// play runs the session to its end.
func (s *stage) play(t *testing.T, during ...func(*testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	return s.playFrom(t, workflows.SessionInput{Start: session.Start{Store: "s", Workspace: "input-root", Course: s.course}},
		during...)
}

// playFrom runs a session with an input to its end.
func (s *stage) playFrom(t *testing.T, in workflows.SessionInput,
	during ...func(*testsuite.TestWorkflowEnvironment),
) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	if s.logs != nil {
		suite.SetLogger(log.NewStructuredLogger(slog.New(slog.NewTextHandler(s.logs, nil))))
	}
	env := suite.NewTestWorkflowEnvironment()
	for name, fn := range map[activities.Name]any{
		activities.AdmitName: s.admit, activities.RoundName: s.run, activities.MergeName: s.merged,
		activities.AdvanceName: s.advance, activities.CloseName: s.close,
		activities.WriteStatusName: s.writeStatus, activities.ReworkName: s.sendBack,
		activities.NotifyName: s.notify,
	} {
		env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: string(name)})
	}
	for _, f := range during {
		f(env)
	}
	env.ExecuteWorkflow(workflows.TeamSession, in)
	require.True(t, env.IsWorkflowCompleted())
	return env
}

func (s *stage) order() []string {
	var out []string
	for _, in := range s.rounds {
		out = append(out, fmt.Sprintf("%s.%d", in.AssignmentID, in.Round))
	}
	return out
}

// newTeam makes a team of phases, whose sessions end when nobody could help.
func newTeam(phases ...spec.Phase) spec.Team {
	t := spec.Team{Version: 1, Name: "t", Personas: map[string]spec.Persona{}, Phases: phases, Help: spec.Help{Mode: spec.HelpFail}}
	for _, p := range phases {
		for _, persona := range p.Personas {
			t.Personas[persona] = spec.Persona{Role: persona, Agent: "agent-" + persona, Instructions: "work"}
		}
	}
	return t
}

func phase(name string, personas ...string) spec.Phase {
	return spec.Phase{Name: name, Personas: personas}
}

func failedRound(c failures.Category, message string) error {
	report := activities.RoundFailure{
		Failure:     failures.Failure{Category: c, Message: message},
		Attempts:    []session.AttemptFailure{{Category: c, Message: message}, {Category: c, Message: message}},
		RoundReport: session.RoundReport{Total: cost.Usage{InputTokens: 7}},
	}
	return temporal.NewApplicationErrorWithOptions(message, session.UnrecoverableError,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{report}})
}

func status(t *testing.T, env *testsuite.TestWorkflowEnvironment) session.Status {
	t.Helper()
	value, err := env.QueryWorkflow(workflows.StatusQuery)
	require.NoError(t, err)
	var s session.Status
	require.NoError(t, value.Get(&s))
	return s
}

func TestBranchesThatDoNotFitTogetherNeedHelp(t *testing.T) {
	t.Parallel()
	left, right := phase("left", "a"), phase("right", "b")
	right.Needs = []string{}
	join := phase("join", "c")
	join.Needs = []string{"left", "right"}
	between := []spec.AssignmentID{{Phase: "left", Persona: "a"}, {Phase: "right", Persona: "b"}}
	conflicts := map[string][]session.Conflict{"join": {
		{Path: "main.go", Between: between},
		{Decision: "db", Between: between, More: 7},
	}}
	s := &stage{team: newTeam(left, right, join), conflicts: conflicts}
	const found = "the input of phase join has a merge conflict: main.go (left/a, right/b); decision db (left/a, right/b) and 7 more"
	requireHelp(t, s.play(t), "join/c failed: contract_violation: "+found)
	require.NotContains(t, s.order(), "join/c.1")

	for action, dropped := range map[session.Action][]string{
		session.AnswerSkip: {
			"main.go: the version of left/a is dropped, only that of right/b is kept: a person kept the later version",
			"decision db: the version of left/a is dropped, only that of right/b is kept: a person kept the later version", "and 7 more",
		},
		session.AnswerRetry: nil,
	} {
		last := phase("last", "d") // a conflict at the end is another one
		last.Needs = []string{"join"}
		s = &stage{team: patient(left, right, join, last), conflicts: conflicts, laterWins: true}
		env := s.play(t, says(time.Hour, session.Answer{Request: "join.c.1", Action: action}))
		require.NoError(t, env.GetWorkflowError())
		require.Equal(t, spec.Digest("merged-join"), s.rounds[2].Input)
		require.Equal(t, action == session.AnswerRetry, s.rounds[2].Settles)
		require.False(t, s.rounds[3].Settles)
		if action == session.AnswerRetry { // and a person drops the work that was to settle it
			s.round = func(in activities.RoundInput) (session.RoundResult, error) {
				if in.Phase == "join" {
					return session.RoundResult{}, failedRound(failures.Auth, "no key")
				}
				return session.RoundResult{}, nil
			}
			s.rounds, s.advanced = nil, nil
			env = s.play(t, says(time.Hour, session.Answer{Request: "join.c.1", Action: action}),
				says(2*time.Hour, session.Answer{Request: "join.c.2", Action: session.AnswerSkip}))
			require.NoError(t, env.GetWorkflowError())
			require.Contains(t, status(t, env).Phases[2].Assignments[0].Dropped[0], "main.go: the version of left/a is dropped")
			continue
		}
		phases := status(t, env).Phases
		require.Equal(t, dropped, phases[2].Assignments[0].Dropped)
		require.Equal(t, dropped, s.advanced[2].Assignments[0].Dropped, "the checkpoint has it, too")
	}
}

// TestHistoriesHoldNoProse holds what the workflow passes on against the rule
// that payloads carry digests and short texts only.
func TestHistoriesHoldNoProse(t *testing.T) {
	t.Parallel()
	tm := newTeam(phase("build", "a"))
	tm.Description = "prose"
	persona := tm.Personas["a"]
	persona.Instructions = strings.Repeat("prose ", 1000)
	tm.Personas["a"] = persona
	payload, err := converter.GetDefaultDataConverter().ToPayload(tm.Resolved().Outline())
	require.NoError(t, err)
	require.NotContains(t, string(payload.GetData()), "prose")
}

func requireHelp(t *testing.T, env *testsuite.TestWorkflowEnvironment, message string) []session.Request {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &app)
	require.Equal(t, session.HelpNeeded, app.Type())
	require.Contains(t, app.Error(), message)
	var help []session.Request
	require.NoError(t, app.Details(&help))
	require.NotEmpty(t, help)
	return help
}

// TestRecordedHistoriesReplay replays sessions of every kind, a ticket
// and a webhook's call that earlier code has run: what changes the commands of a running session fails here.
func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	temporaltest.ReplayHistories(t, map[string]any{
		workflows.TeamSessionName: workflows.TeamSession,
		workflows.TicketName:      workflows.Ticket, workflows.WebhookName: workflows.Webhook,
	})
}

// suggest has Temporal suggest to continue as new.
func suggest(env *testsuite.TestWorkflowEnvironment) {
	env.SetContinueAsNewSuggested(true)
	env.SignalWorkflow(workflows.TicketSignal, workflows.TicketNews{Request: "none"}) // a workflow task
}

// next is the input of the run that continues the session as new.
func next(t *testing.T, env *testsuite.TestWorkflowEnvironment) workflows.SessionInput {
	t.Helper()
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &again)
	var in workflows.SessionInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	return in
}

// TestARunThatCannotContinueEndsItsSession: people are told, and the store knows that it has ended.
func TestARunThatCannotContinueEndsItsSession(t *testing.T) {
	t.Parallel()
	s := &stage{team: patient(phase("one", "a")), webhook: true}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		return session.RoundResult{}, failedRound(failures.Auth, "no key")
	}
	in := next(t, s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { suggest(env) }, time.Hour)
	}))
	second := s.playFrom(t, in, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(string(activities.AdmitName), mock.Anything, mock.Anything).
			Return(activities.Admission{}, temporal.NewNonRetryableApplicationError("the checkpoint is damaged",
				session.UnrecoverableError, nil))
	})
	require.ErrorContains(t, second.GetWorkflowError(), "the checkpoint is damaged")
	require.Len(t, s.closed, 1)
	require.Equal(t, session.Failed, s.closed[0].Status.Status)
	require.Equal(t, session.SessionFailed, s.told[len(s.told)-1].Notice.Event)
}

// TestTheWaitBetweenRoundsOutlivesItsRun: it ends when it would have without a new run, and no round is repeated.
func TestTheWaitBetweenRoundsOutlivesItsRun(t *testing.T) {
	t.Parallel()
	s := &stage{team: patient(phase("one", "a"))}
	wait := textfmt.Duration(5 * time.Hour)
	s.team.Retry = spec.Retry{Attempts: 1, Rounds: 2, RoundInitial: wait, RoundMax: wait}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Round == 1 {
			return session.RoundResult{}, failedRound(failures.TestFailure, "TestX fails")
		}
		return session.RoundResult{}, nil
	}
	first := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { suggest(env) }, time.Hour)
	})
	second := s.playFrom(t, next(t, first), func(env *testsuite.TestWorkflowEnvironment) {
		env.SetStartTime(first.Now().Add(time.Hour))
	})
	require.NoError(t, second.GetWorkflowError())
	require.Equal(t, []string{"one/a.1", "one/a.2"}, s.order())
	require.Equal(t, 4*time.Hour, second.Now().Sub(first.Now()).Round(time.Minute))
}
