package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/worker/telemetry"
	"github.com/maestro-hive/maestro/workflows"
)

var morning = time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)

// noticeOf is a notice of a session, the n-th.
func noticeOf(sessionID string, event session.Event, n int) activities.TicketNotice {
	return activities.TicketNotice{
		Notice: session.Notice{
			ID: fmt.Sprintf("%s/%d", sessionID, n), Event: event, At: morning, Session: sessionID, Team: "t",
			Request: &session.Request{ID: sessionID + ".request", Phase: "build", Persona: "dev"},
		},
		Jira: &spec.HelpJira{Project: "MD", Type: "Bug"},
	}
}

var failure = workflows.TicketInput{Store: "s", Fingerprint: "f00"}

func unreachable(from, until time.Duration) func(string, time.Time) (bool, error) {
	return func(_ string, at time.Time) (bool, error) {
		if past := at.Sub(morning); past >= from && past < until {
			return false, &session.TicketTrouble{Kind: session.Unreached, Message: "Jira does not answer"}
		}
		return false, nil
	}
}

// TestLostAnswers has the ticket made, or not, while nobody hears of it, and the first comment too.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	unclear := &session.TicketTrouble{Kind: session.Unclear, Message: "the connection broke"}
	for name, tt := range map[string]struct {
		err  error
		made bool
		lag  time.Duration
	}{
		"made":                           {unclear, true, 0},
		"made, found late":               {unclear, true, 100 * time.Second},
		"not made":                       {unclear, false, 0},
		"made by a worker that was lost": {errors.New("nobody knows"), true, 90 * time.Second},
		"not made by a lost worker":      {errors.New("nobody knows"), false, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTicketBench(t)
			b.jira.lag = tt.lag
			b.jira.fail = func(call string, _ time.Time) (bool, error) {
				if call == "create" && b.jira.calls["create"] == 1 {
					return tt.made, tt.err
				}
				if call == "comment" && b.jira.calls["comment"] == 1 {
					return true, tt.err
				}
				return false, nil
			}
			b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
			b.notify(10*time.Second, noticeOf("b", session.HelpAsked, 1))
			b.run(failure)
			require.Len(t, b.jira.made, 1)
			require.Equal(t, "a/1", b.jira.made[0].of.ID)
			require.Len(t, b.jira.made[0].comments, 1)
			require.Equal(t, 2, b.jira.made[0].comments[0].occurrences)
			require.Equal(t, session.Ticket{Key: "MD-1", URL: "https://jira/browse/MD-1", Occurrences: 2},
				b.record(failure.Fingerprint).Ticket)
			if !tt.made {
				require.GreaterOrEqual(t, b.jira.made[0].at.Sub(morning), 2*time.Minute,
					"a new ticket could have been there unseen until then")
			}
			require.Equal(t, session.Ticket{Key: "MD-1", URL: "https://jira/browse/MD-1", Occurrences: 2}, b.heard[len(b.heard)-1].Ticket)
		})
	}
}

// TestDoubtSurvivesANewRun continues as new between a creation whose answer was lost
// and the search that finds the ticket.
func TestDoubtSurvivesANewRun(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.lag = time.Minute
	b.jira.fail = func(call string, _ time.Time) (bool, error) {
		if call == "create" {
			return true, &session.TicketTrouble{Kind: session.Unclear, Message: "the connection broke"}
		}
		return false, nil
	}
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	b.continueAsNew(20 * time.Second)
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1)) // sent again
	b.run(failure)
	require.Equal(t, 1, b.continued)
	require.Len(t, b.jira.made, 1)
	require.Equal(t, 1, b.jira.calls["create"])
	require.Empty(t, b.jira.made[0].comments)
	require.Equal(t, "MD-1", b.record(failure.Fingerprint).Ticket.Key)
}

func TestWhatIsMisconfiguredIsSaidAndTriedWhenSomebodyMayHaveMendedIt(t *testing.T) {
	t.Parallel()
	for name, mend := range map[string]func(b *ticketBench){
		"by itself":           func(*ticketBench) {},
		"when a notice comes": func(b *ticketBench) { b.notify(30*time.Second, noticeOf("b", session.HelpAsked, 1)) },
		"at an update":        func(b *ticketBench) { b.update(30*time.Second, workflows.RetryUpdate, "r") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTicketBench(t)
			b.jira.fail = func(call string, at time.Time) (bool, error) {
				if call == "create" && at.Sub(morning) < 20*time.Second {
					return false, &session.TicketTrouble{Kind: session.Misconfigured, Message: "project MD has no type Bug"}
				}
				return false, nil
			}
			b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
			mend(b)
			b.run(failure)
			require.Equal(t, heard{"a", workflows.TicketNews{
				Request: "a.request",
				Ticket:  session.Ticket{Occurrences: 1, Trouble: "project MD has no type Bug"},
			}}, b.heard[0])
			last := b.heard[len(b.heard)-1]
			require.Equal(t, "MD-1", last.Ticket.Key)
			require.Empty(t, last.Ticket.Trouble)
			made := b.jira.made[0].at.Sub(morning)
			if name == "by itself" {
				require.InDelta(t, 301, made.Seconds(), 1)
			} else {
				require.InDelta(t, 31, made.Seconds(), 1)
			}
		})
	}
}

func TestDeletedTicketIsMadeAnewForWhatHasToBeSeen(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	b.change(30*time.Second, func() { b.jira.made[0].gone = true })
	b.notify(time.Minute, noticeOf("a", session.RequestClosed, 2))
	b.notify(time.Minute, noticeOf("b", session.HelpAsked, 1))
	b.run(failure)
	require.Len(t, b.jira.made, 2)
	require.Equal(t, "b/1", b.jira.made[1].of.ID, "nobody needs a ticket that says that a session went on")
	require.Empty(t, b.jira.made[1].comments)
	require.Equal(t, session.Ticket{Key: "MD-2", URL: "https://jira/browse/MD-2", Occurrences: 2}, b.heard[len(b.heard)-1].Ticket)
}

// TestPendingNoticesAreBounded has people answer hundreds of sessions while Jira is away:
// what is pending stays small enough for the workflow to continue as new.
func TestPendingNoticesAreBounded(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.fail = unreachable(0, time.Hour)
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	for n := range 200 {
		b.notify(time.Second, noticeOf(fmt.Sprint("s", n), session.RequestClosed, 1))
	}
	b.continueAsNew(time.Minute)
	b.run(failure)
	require.Equal(t, 1, b.continued)
	require.Len(t, b.jira.made, 1)
	comments := b.jira.made[0].comments
	require.Len(t, comments, 49)
	require.Zero(t, comments[47].omitted)
	require.Equal(t, 151, comments[48].omitted)
}

// TestFollowersOutliveTheWorkflow: a session that waits for a person is notified of what
// a later run finds out.
func TestFollowersOutliveTheWorkflow(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	b.change(time.Hour, func() { b.jira.made[0].gone = true })
	b.notify(time.Hour, noticeOf("b", session.HelpAsked, 1))
	b.run(failure)
	require.Len(t, b.jira.made, 2)
	require.Contains(t, b.heard, heard{"a", workflows.TicketNews{
		Request: "a.request", Ticket: session.Ticket{Key: "MD-2", URL: "https://jira/browse/MD-2", Occurrences: 2},
	}})
}

// TestJiraAwayForADayCostsLittle counts the tries of a day.
func TestJiraAwayForADayCostsLittle(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.fail = unreachable(0, 24*time.Hour)
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	b.notify(time.Hour, noticeOf("a", session.SessionFailed, 2))
	b.run(failure)
	require.Less(t, b.jira.calls["find"], 320)
	require.Len(t, b.jira.made, 1)
	require.Less(t, b.jira.made[0].at.Sub(morning), 24*time.Hour+6*time.Minute)
	require.Len(t, b.jira.made[0].comments, 1)
	require.Equal(t, []heard{{"a", workflows.TicketNews{
		Request: "a.request",
		Ticket:  session.Ticket{Occurrences: 1, Trouble: "Jira does not answer; retrying"},
	}}}, b.heard,
		"one trouble is told once, and a session that has ended hears no more")
}

func TestWaitThatIsAskedForIsKept(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	var last time.Time
	b.jira.fail = func(_ string, at time.Time) (bool, error) {
		defer func() { last = at }()
		if last.IsZero() {
			return false, &session.TicketTrouble{
				Kind: session.Unreached, Message: "too many requests",
				RetryAfter: textfmt.Duration(7 * time.Minute),
			}
		}
		return false, nil
	}
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	b.notify(time.Second, noticeOf("b", session.HelpAsked, 1))
	b.run(failure)
	require.InDelta(t, (7*time.Minute + time.Second).Seconds(), b.jira.made[0].at.Sub(morning).Seconds(), 1)
}

func TestKnownTicketIsCommentedAndNeverMade(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.made = []made{{key: "MD-5", at: morning}}
	first, last := noticeOf("a", session.HelpAsked, 1), noticeOf("a", session.SessionCompleted, 2)
	first.Jira, last.Jira, first.Quiet = nil, nil, true
	b.notify(time.Second, first)
	b.notify(time.Second, last)
	b.change(time.Minute, func() { b.jira.made[0].gone = true })
	late := noticeOf("b", session.HelpAsked, 1)
	late.Jira = nil
	b.notify(2*time.Minute, late)
	b.run(workflows.TicketInput{Store: "s", Key: "MD-5"})
	require.Len(t, b.jira.made, 1)
	require.Zero(t, b.jira.calls["create"]+b.jira.calls["find"])
	require.Len(t, b.jira.made[0].comments, 2)
	require.Zero(t, b.jira.made[0].comments[0].occurrences)
	require.Equal(t, []heard{{"b", workflows.TicketNews{
		Request: "b.request",
		Ticket:  session.Ticket{Key: "MD-5", URL: "https://jira/browse/MD-5"},
	}}, {"b", workflows.TicketNews{
		Request: "b.request",
		Ticket:  session.Ticket{Key: "MD-5", URL: "https://jira/browse/MD-5", Trouble: "MD-5 is not there"},
	}}}, b.heard)
	require.Equal(t, session.Gone, b.record("MD-5").Kind, "after a week nobody will read it")
}

// tickets is a ticket system in memory.
type tickets struct {
	now func() time.Time
	// lag is how long its search does not find a new ticket.
	lag time.Duration
	// fail, if it returns an error, is the answer to a call: find, create or comment.
	// done says that the call has its effect all the same.
	fail func(call string, at time.Time) (done bool, err error)

	made  []made
	calls map[string]int
}

type made struct {
	key, label string
	at         time.Time
	of         session.Notice
	comments   []comment
	gone       bool
}

type comment struct {
	session.Notice
	occurrences, omitted int
}

func (s *tickets) answer(call string) (done bool, err error) {
	s.calls[call]++
	if s.fail == nil {
		return true, nil
	}
	done, err = s.fail(call, s.now())
	return done || err == nil, err
}

func (s *tickets) Find(_ context.Context, _, label string) (session.Ticket, bool, error) {
	if _, err := s.answer("find"); err != nil {
		return session.Ticket{}, false, err
	}
	for _, m := range s.made {
		if m.label == label && !m.gone && s.now().Sub(m.at) >= s.lag {
			return session.Ticket{Key: m.key, URL: s.Address(m.key)}, true, nil
		}
	}
	return session.Ticket{}, false, nil
}

func (s *tickets) Create(_ context.Context, how spec.HelpJira, label string, n session.Notice) (session.Ticket, error) {
	done, err := s.answer("create")
	if !done {
		return session.Ticket{}, err
	}
	key := fmt.Sprintf("%s-%d", how.Project, len(s.made)+1)
	s.made = append(s.made, made{key: key, label: label, at: s.now(), of: n})
	return session.Ticket{Key: key, URL: s.Address(key)}, err
}

func (s *tickets) Comment(_ context.Context, in session.TicketComment) error {
	done, err := s.answer("comment")
	for i, m := range s.made {
		if m.key != in.Key || !done {
			continue
		}
		if m.gone {
			return &session.TicketTrouble{Kind: session.Gone, Message: in.Key + " is not there"}
		}
		known := false
		for _, c := range m.comments {
			known = known || c.ID == in.Notice.ID
		}
		if !known || !in.Again {
			s.made[i].comments = append(m.comments, comment{in.Notice, in.Occurrences, in.Omitted})
		}
	}
	return err
}

func (s *tickets) Address(key string) string { return "https://jira/browse/" + key }

// ticketBench runs the workflow of a ticket in the SDK's test environment: a new run
// for each notice that comes when the last run has completed.
type ticketBench struct {
	t     *testing.T
	jira  *tickets
	state *state.DB
	// env is that of the newest run; completed and continued count the ends of runs.
	env                  *testsuite.TestWorkflowEnvironment
	completed, continued int
	// heard is what sessions were signalled, in order.
	heard []heard
	// at is when the last of the steps comes.
	at    time.Duration
	steps []*step
}

// step is something that happens at a time.
type step struct {
	at   time.Duration
	done bool
	// during is what happens during a run; between, if not nil, may happen between two runs.
	during  func(s *step)
	between func()
}

type heard struct {
	session string
	workflows.TicketNews
}

func newTicketBench(t *testing.T) *ticketBench {
	t.Helper()
	db, err := state.OpenSQLite(t.Context(), t.TempDir(), state.Options{Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &ticketBench{t: t, state: db, jira: &tickets{calls: map[string]int{}}}
}

// update sends an update a while after the last step.
func (b *ticketBench) update(after time.Duration, name, id string, args ...any) {
	b.at += after
	b.steps = append(b.steps, &step{at: b.at, during: func(s *step) {
		b.env.UpdateWorkflow(name, id, &testsuite.TestUpdateCallback{
			OnReject: func(err error) { require.NoError(b.t, err) }, OnAccept: func() { s.done = true },
			OnComplete: func(_ any, err error) { require.NoError(b.t, err) },
		}, args...)
	}})
}

// notify sends a notice a while after the last step.
func (b *ticketBench) notify(after time.Duration, n activities.TicketNotice) {
	b.update(after, workflows.NoticeUpdate, n.Notice.ID, n)
}

// change changes something a while after the last step.
func (b *ticketBench) change(after time.Duration, what func()) {
	b.at += after
	b.steps = append(b.steps, &step{at: b.at, during: func(s *step) { what(); s.done = true }, between: what})
}

// continueAsNew has the run continue as new a while after the last step.
func (b *ticketBench) continueAsNew(after time.Duration) {
	b.change(after, func() { b.env.SetContinueAsNewSuggested(true) })
	b.update(time.Millisecond, workflows.RetryUpdate, "wake")
}

// run takes all steps and returns when the ticket's workflow has completed.
func (b *ticketBench) run(in workflows.TicketInput) {
	b.t.Helper()
	for len(b.steps) > 0 {
		if first := b.steps[0]; first.between != nil {
			first.between()
			b.steps = b.steps[1:]
			continue
		}
		b.execute(in, b.steps[0].at)
	}
}

// execute runs the workflow from a moment until it completes.
func (b *ticketBench) execute(in workflows.TicketInput, from time.Duration) {
	b.t.Helper()
	b.newEnvironment(from)
	for _, s := range b.steps {
		b.env.RegisterDelayedCallback(func() { s.during(s) }, max(s.at-from, 0))
	}
	b.env.ExecuteWorkflow(workflows.TicketName, in)
	b.steps = slices.DeleteFunc(b.steps, func(s *step) bool { return s.done })
	var again *workflow.ContinueAsNewError
	if !errors.As(b.env.GetWorkflowError(), &again) {
		require.NoError(b.t, b.env.GetWorkflowError())
		b.completed++
		require.Less(b.t, b.completed, 1000)
		return
	}
	b.continued++
	var next workflows.TicketInput
	require.NoError(b.t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &next))
	b.execute(next, b.env.Now().Sub(morning))
}

func (b *ticketBench) newEnvironment(from time.Duration) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler))) // a day of failed tries is a lot to read
	b.env = suite.NewTestWorkflowEnvironment()
	b.env.SetStartTime(morning.Add(from))
	b.env.SetTestTimeout(time.Minute)
	b.jira.now = b.env.Now
	b.env.RegisterWorkflowWithOptions(workflows.Ticket, workflow.RegisterOptions{Name: workflows.TicketName})
	calls := &activities.TicketCalls{
		Tickets: b.jira, IndexDelay: textfmt.Duration(2 * time.Minute), Observer: (*telemetry.Telemetry)(nil).Recorder(),
	}
	kept := &activities.TicketRecords{Store: b.state, Namespace: "default"}
	for name, fn := range map[activities.Name]any{
		activities.FindTicketName: calls.Find, activities.CreateTicketName: calls.Create, activities.CommentTicketName: calls.Comment,
		activities.LoadTicketName: kept.Load, activities.SaveTicketName: kept.Save,
	} {
		b.env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: string(name)})
	}
	b.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, workflows.TicketSignal, mock.Anything).Return(
		func(_, sessionID, _, _ string, arg any) error {
			b.heard = append(b.heard, heard{sessionID, arg.(workflows.TicketNews)})
			return nil
		})
}

// record is what the store has of a ticket.
func (b *ticketBench) record(name string) session.TicketRecord {
	b.t.Helper()
	record, err := b.state.Ticket(b.t.Context(), "default", name)
	require.NoError(b.t, err)
	return record
}
