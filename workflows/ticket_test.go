package workflows_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
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

func TestFirstNoticeMakesTheTicketAndLaterOnesAreComments(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1)) // sent again
	b.notify(time.Minute, noticeOf("a", session.RequestClosed, 2))
	b.notify(time.Minute, noticeOf("b", session.HelpAsked, 1))
	b.notify(time.Minute, noticeOf("a", session.SessionCompleted, 3))
	b.run(failure)
	require.Len(t, b.jira.made, 1)
	ticket := b.jira.made[0]
	require.Equal(t, "maestro-f00", ticket.label)
	require.Equal(t, "a/1", ticket.of.ID)
	require.Len(t, ticket.comments, 3)
	require.Equal(t, session.RequestClosed, ticket.comments[0].Event)
	require.Equal(t, "b/1", ticket.comments[1].ID)
	require.Equal(t, 2, ticket.comments[1].occurrences)
	require.Equal(t, session.SessionCompleted, ticket.comments[2].Event)
	require.Equal(t, []heard{
		{"a", workflows.TicketNews{Request: "a.request", Ticket: session.Ticket{
			Key: "MD-1", URL: "https://jira/browse/MD-1",
			Occurrences: 1,
		}}},
		{"b", workflows.TicketNews{Request: "b.request", Ticket: session.Ticket{
			Key: "MD-1", URL: "https://jira/browse/MD-1",
			Occurrences: 2,
		}}},
	}, b.heard)
}

// TestLostAnswerOfACreation has the ticket made, or not, while nobody hears of it.
func TestLostAnswerOfACreation(t *testing.T) {
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
				return false, nil
			}
			b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
			b.notify(10*time.Second, noticeOf("b", session.HelpAsked, 1))
			b.run(failure)
			require.Len(t, b.jira.made, 1)
			require.Equal(t, "a/1", b.jira.made[0].of.ID)
			require.Len(t, b.jira.made[0].comments, 1)
			require.Equal(t, 2, b.jira.made[0].comments[0].occurrences)
			require.Equal(t, session.Ticket{Key: "MD-1", URL: "https://jira/browse/MD-1", Occurrences: 2}, b.record().Ticket)
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
	require.Equal(t, "MD-1", b.record().Ticket.Key)
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

func TestNoticesReachTheTicketInOrder(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.fail = unreachable(0, 30*time.Second)
	for n, event := range []session.Event{
		session.HelpAsked, session.RequestClosed, session.HelpAsked, session.RequestClosed,
		session.SessionCompleted,
	} {
		b.notify(time.Second, noticeOf("a", event, n))
		b.notify(time.Second, noticeOf("b", event, n))
	}
	b.run(failure)
	require.Len(t, b.jira.made, 1)
	got := []string{b.jira.made[0].of.ID}
	for _, c := range b.jira.made[0].comments {
		got = append(got, c.ID)
	}
	require.Equal(t, []string{"a/0", "b/0", "a/1", "b/1", "a/2", "b/2", "a/3", "b/3", "a/4", "b/4"}, got)
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

// TestTicketOutlivesItsWorkflow: the workflow completes when the ticket has every notice;
// later notices of the failure go to the same ticket, without a search.
func TestTicketOutlivesItsWorkflow(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.lag = 365 * 24 * time.Hour // a search would never find it
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	b.notify(24*time.Hour, noticeOf("b", session.HelpAsked, 1))
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1)) // sent again
	b.notify(24*time.Hour, noticeOf("b", session.HelpAsked, 1))
	b.notify(24*time.Hour, noticeOf("b", session.SessionFailed, 2))
	b.run(failure)
	require.GreaterOrEqual(t, b.completed, 4)
	require.Len(t, b.jira.made, 1)
	require.Equal(t, 1, b.jira.calls["find"])
	comments := b.jira.made[0].comments
	require.Len(t, comments, 2)
	require.Equal(t, "b/1", comments[0].ID)
	require.Equal(t, 2, comments[0].occurrences)
	require.Equal(t, "b/2", comments[1].ID)
	require.Len(t, b.heard, 2, "a session that knows its ticket is not notified again")
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

// TestRecordThatIsLost: the ticket is found again by its label.
func TestRecordThatIsLost(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.lag = time.Minute
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	b.change(time.Hour, func() { clear(b.records.kept) })
	b.notify(time.Hour, noticeOf("b", session.HelpAsked, 1))
	b.run(failure)
	require.Len(t, b.jira.made, 1)
	require.Len(t, b.jira.made[0].comments, 1)
}

// TestRecordIsWrittenUntilTheStoreAnswers: the workflow completes only then.
func TestRecordIsWrittenUntilTheStoreAnswers(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.records.lost = 3
	b.notify(time.Second, noticeOf("a", session.HelpAsked, 1))
	b.notify(10*time.Second, noticeOf("b", session.HelpAsked, 1))
	b.run(failure)
	require.Zero(t, b.records.lost)
	require.Len(t, b.jira.made, 1)
	require.Len(t, b.jira.made[0].comments, 1)
	require.Equal(t, 2, b.record().Ticket.Occurrences)
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
	require.Equal(t, session.Gone, b.records.kept["MD-5"].Kind, "after a week nobody will read it")
}

func TestInvalidNoticesAreRejected(t *testing.T) {
	t.Parallel()
	nameless, without := noticeOf("a", session.HelpAsked, 1), noticeOf("a", session.HelpAsked, 2)
	nameless.Notice.ID, without.Jira = "", nil
	for want, bad := range map[string]activities.TicketNotice{"has no id": nameless, "how the ticket is created": without} {
		b := newTicketBench(t)
		var rejected error
		b.steps = append(b.steps, &step{during: func(s *step) {
			b.env.UpdateWorkflow(workflows.NoticeUpdate, "u", &testsuite.TestUpdateCallback{
				OnReject: func(err error) { rejected, s.done = err, true }, OnAccept: func() {}, OnComplete: func(any, error) {},
			}, bad)
		}})
		b.run(failure)
		require.ErrorContains(t, rejected, want)
	}
}
