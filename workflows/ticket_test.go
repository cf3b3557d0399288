package workflows_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/workflows"
)

var morning = time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)

// told is a notice of a session, the n-th.
func told(session string, event team.Event, n int) activities.Telling {
	return activities.Telling{
		Notice: team.Notice{
			ID: fmt.Sprintf("%s/%d", session, n), Event: event, At: morning, Session: session, Team: "t",
			Request: &team.HelpRequest{ID: session + ".request", Phase: "build", Persona: "dev"},
		},
		Jira: &team.HelpJira{Project: "MD", Type: "Bug"},
	}
}

// tell sends a notice after a while.
func (b *ticketBench) tell(after time.Duration, t activities.Telling) {
	b.update(after, workflows.TellUpdate, t.Notice.ID, t)
}

func (b *ticketBench) update(after time.Duration, name, id string, args ...any) {
	b.at += after
	b.env.RegisterDelayedCallback(func() {
		b.env.UpdateWorkflow(name, id, &testsuite.TestUpdateCallback{
			OnReject: func(err error) { require.NoError(b.t, err) }, OnAccept: func() {},
			OnComplete: func(_ any, err error) { require.NoError(b.t, err) },
		}, args...)
	}, b.at)
}

// end runs until the workflow continues as new, which it is told to do after a while,
// and returns what it goes on with.
func (b *ticketBench) end(after time.Duration, in workflows.TicketInput) workflows.TicketInput {
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, b.at+after)
	b.update(after+time.Millisecond, workflows.RetryUpdate, "wake")
	b.env.ExecuteWorkflow(workflows.TicketName, in)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(b.t, b.env.GetWorkflowError(), &again)
	var next workflows.TicketInput
	require.NoError(b.t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &next))
	return next
}

var failure = workflows.TicketInput{Store: "s", Fingerprint: "f00"}

func unreachable(from, until time.Duration) func(string, time.Time) (bool, error) {
	return func(_ string, at time.Time) (bool, error) {
		if past := at.Sub(morning); past >= from && past < until {
			return false, &team.TicketTrouble{Kind: team.Unreached, Message: "Jira does not answer"}
		}
		return false, nil
	}
}

func TestFirstNoticeMakesTheTicketAndLaterOnesAreComments(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.tell(time.Second, told("a", team.HelpAsked, 1))
	b.tell(time.Second, told("a", team.HelpAsked, 1)) // sent again
	b.tell(time.Minute, told("a", team.WentOn, 2))
	b.tell(time.Minute, told("b", team.HelpAsked, 1))
	b.tell(time.Minute, told("a", team.SessionCompleted, 3))
	b.end(time.Minute, failure)
	require.Len(t, b.jira.made, 1)
	ticket := b.jira.made[0]
	require.Equal(t, "maestro-f00", ticket.label)
	require.Equal(t, "a/1", ticket.of.ID)
	require.Len(t, ticket.comments, 3)
	require.Equal(t, team.WentOn, ticket.comments[0].Event)
	require.Equal(t, "b/1", ticket.comments[1].ID)
	require.Equal(t, 2, ticket.comments[1].occurrences)
	require.Equal(t, team.SessionCompleted, ticket.comments[2].Event)
	require.Equal(t, []heard{
		{"a", workflows.TicketNews{Request: "a.request", Ticket: team.Ticket{Key: "MD-1", URL: "https://jira/browse/MD-1", Occurrences: 1}}},
		{"b", workflows.TicketNews{Request: "b.request", Ticket: team.Ticket{Key: "MD-1", URL: "https://jira/browse/MD-1", Occurrences: 2}}},
	}, b.heard)
}

func TestTicketThatIsThereAlreadyIsFoundAndCommented(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.made = []made{{key: "MD-9", label: "maestro-f00", at: morning.Add(-time.Hour)}}
	b.tell(time.Second, told("a", team.HelpAsked, 1))
	b.end(time.Minute, failure)
	require.Len(t, b.jira.made, 1)
	require.Len(t, b.jira.made[0].comments, 1)
	require.Equal(t, 1, b.jira.made[0].comments[0].occurrences)
}

// TestLostAnswerOfACreation has the ticket made, or not, while nobody hears of it.
func TestLostAnswerOfACreation(t *testing.T) {
	t.Parallel()
	unclear := &team.TicketTrouble{Kind: team.Unclear, Message: "the connection broke"}
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
			b.tell(time.Second, told("a", team.HelpAsked, 1))
			b.tell(10*time.Second, told("b", team.HelpAsked, 1))
			next := b.end(10*time.Minute, failure)
			require.Len(t, b.jira.made, 1)
			require.Equal(t, "a/1", b.jira.made[0].of.ID)
			require.Len(t, b.jira.made[0].comments, 1)
			require.Equal(t, 2, b.jira.made[0].comments[0].occurrences)
			require.Equal(t, team.Ticket{Key: "MD-1", URL: "https://jira/browse/MD-1", Occurrences: 2}, next.Outbox.Ticket)
			if !tt.made {
				require.GreaterOrEqual(t, b.jira.made[0].at.Sub(morning), 2*time.Minute, "a new ticket could have been there unseen until then")
			}
			require.Equal(t, team.Ticket{Key: "MD-1", URL: "https://jira/browse/MD-1", Occurrences: 2}, b.heard[len(b.heard)-1].Ticket)
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
			return true, &team.TicketTrouble{Kind: team.Unclear, Message: "the connection broke"}
		}
		return false, nil
	}
	b.tell(time.Second, told("a", team.HelpAsked, 1))
	next := b.end(20*time.Second, failure)
	require.Equal(t, team.Unclear, next.Outbox.Kind)
	require.Len(t, next.Outbox.Waiting, 1)

	second := newTicketBench(t)
	second.env.SetStartTime(morning.Add(30 * time.Second))
	second.jira.made, second.jira.lag = b.jira.made, b.jira.lag
	second.tell(time.Second, told("a", team.HelpAsked, 1)) // sent again
	last := second.end(5*time.Minute, next)
	require.Len(t, second.jira.made, 1)
	require.Zero(t, second.jira.calls["create"])
	require.Empty(t, second.jira.made[0].comments)
	require.Equal(t, "MD-1", last.Outbox.Ticket.Key)
	require.Empty(t, last.Outbox.Waiting)
}

func TestWhatIsMisconfiguredIsSaidAndTriedWhenSomebodyMayHaveMendedIt(t *testing.T) {
	t.Parallel()
	for name, mend := range map[string]func(b *ticketBench){
		"by itself":           func(*ticketBench) {},
		"when a notice comes": func(b *ticketBench) { b.tell(30*time.Second, told("b", team.HelpAsked, 1)) },
		"at a word":           func(b *ticketBench) { b.update(30*time.Second, workflows.RetryUpdate, "r") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTicketBench(t)
			b.jira.fail = func(call string, at time.Time) (bool, error) {
				if call == "create" && at.Sub(morning) < 20*time.Second {
					return false, &team.TicketTrouble{Kind: team.Misconfigured, Message: "project MD has no type Bug"}
				}
				return false, nil
			}
			b.tell(time.Second, told("a", team.HelpAsked, 1))
			mend(b)
			b.end(10*time.Minute, failure)
			require.Equal(t, heard{"a", workflows.TicketNews{
				Request: "a.request",
				Ticket:  team.Ticket{Occurrences: 1, Trouble: "project MD has no type Bug"},
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
	b.tell(time.Second, told("a", team.HelpAsked, 1))
	b.env.RegisterDelayedCallback(func() { b.jira.made[0].gone = true }, 30*time.Second)
	b.tell(time.Minute, told("a", team.WentOn, 2))
	b.tell(time.Minute, told("b", team.HelpAsked, 1))
	b.end(time.Minute, failure)
	require.Len(t, b.jira.made, 2)
	require.Equal(t, "b/1", b.jira.made[1].of.ID, "nobody needs a ticket that says that a session went on")
	require.Empty(t, b.jira.made[1].comments)
	require.Equal(t, team.Ticket{Key: "MD-2", URL: "https://jira/browse/MD-2", Occurrences: 2}, b.heard[len(b.heard)-1].Ticket)
}

// TestManySessionsWithOneFailure have one ticket with one comment.
func TestManySessionsWithOneFailure(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.fail = unreachable(0, 30*time.Second)
	b.absent["s7"] = true
	for n := range 50 {
		b.tell(10*time.Millisecond, told(fmt.Sprint("s", n), team.HelpAsked, 1))
	}
	for n := range 50 {
		b.tell(10*time.Millisecond, told(fmt.Sprint("s", n), team.WentOn, 2))
	}
	next := b.end(5*time.Minute, failure)
	require.Len(t, b.jira.made, 1)
	comments := b.jira.made[0].comments
	require.Len(t, comments, 2)
	require.Equal(t, 49, comments[0].Times)
	require.Equal(t, 50, comments[0].occurrences)
	require.Len(t, comments[0].Also, 9)
	require.Equal(t, "s2", comments[0].Also[0])
	require.Equal(t, 50, comments[1].Times)
	require.Equal(t, team.WentOn, comments[1].Event)
	require.Equal(t, 50, next.Outbox.Ticket.Occurrences)
	require.Empty(t, next.Outbox.Asking, "all of them went on")
}

// TestSessionsThatFailOneAfterTheOther are told together, too.
// TestCrowdIsToldOfInFewComments: what befalls twenty sessions of one failure, one
// after the other, does not make a comment each.
func TestCrowdIsToldOfInFewComments(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	for i, event := range []team.Event{team.HelpAsked, team.WentOn, team.SessionCompleted} {
		for n := range 20 {
			b.tell(2*time.Second, told(fmt.Sprint("s", n), event, i))
		}
	}
	b.end(10*time.Minute, failure)
	require.Len(t, b.jira.made, 1)
	events := map[team.Event]int{team.HelpAsked: 1} // the ticket itself
	for _, c := range b.jira.made[0].comments {
		events[c.Event] += c.Times
	}
	require.Equal(t, map[team.Event]int{team.HelpAsked: 20, team.WentOn: 20, team.SessionCompleted: 20}, events, "nothing is lost")
	require.LessOrEqual(t, len(b.jira.made[0].comments), 10)
}

func TestSessionsThatFailOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	for n := range 50 {
		b.tell(2*time.Second, told(fmt.Sprint("s", n), team.HelpAsked, 1))
	}
	b.tell(time.Second, told("s49", team.WentOn, 2))
	b.end(5*time.Minute, failure)
	comments := b.jira.made[0].comments
	require.LessOrEqual(t, len(comments), 12)
	require.Equal(t, team.WentOn, comments[len(comments)-1].Event)
	require.Equal(t, 50, comments[len(comments)-2].occurrences)
}

func TestOrderOfASessionsNoticesStays(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.fail = unreachable(0, 30*time.Second)
	for n, event := range []team.Event{team.HelpAsked, team.WentOn, team.HelpAsked, team.WentOn, team.SessionCompleted} {
		b.tell(time.Second, told("a", event, n))
		b.tell(time.Second, told("b", event, n))
	}
	b.end(5*time.Minute, failure)
	require.Len(t, b.jira.made, 1)
	var got []string
	for _, c := range b.jira.made[0].comments {
		got = append(got, fmt.Sprint(c.Session, c.Also, " ", c.Event, " ", c.Times))
	}
	require.Equal(t, []string{
		"b[] help_needed 1", "a[b] went_on 2", "a[b] help_needed 2", "a[b] went_on 2", "a[b] completed 2",
	}, got)
}

func TestDifferentAnswersAreDifferentComments(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.fail = unreachable(0, 30*time.Second)
	b.tell(time.Second, told("a", team.HelpAsked, 1))
	for n, note := range []string{"use port 80", "use port 80", "give up"} {
		answered := told(fmt.Sprint("s", n), team.WentOn, 1)
		answered.Notice.Answer = &team.Answer{Verb: team.Retrying, Note: note, By: "ann"}
		b.tell(time.Second, answered)
	}
	b.end(5*time.Minute, failure)
	comments := b.jira.made[0].comments
	require.Len(t, comments, 2)
	require.Equal(t, "use port 80", comments[0].Answer.Note)
	require.Equal(t, []string{"s1"}, comments[0].Also)
	require.Equal(t, "give up", comments[1].Answer.Note)
}

// TestFullLineGrowsNoLonger has people answer hundreds of sessions, each in other words,
// while Jira is away: what waits stays small enough for the workflow to continue as new.
func TestFullLineGrowsNoLonger(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.fail = unreachable(0, time.Hour)
	b.tell(time.Second, told("a", team.HelpAsked, 1))
	for n := range 200 {
		answered := told(fmt.Sprint("s", n), team.WentOn, 1)
		answered.Notice.Answer = &team.Answer{Verb: team.Retrying, Note: fmt.Sprint("note ", n), By: "ann"}
		b.tell(time.Second, answered)
	}
	next := b.end(time.Minute, failure)
	require.Len(t, next.Outbox.Waiting, 50)
	require.Equal(t, 201, func() (all int) {
		for _, w := range next.Outbox.Waiting {
			all += w.Notice.Times
		}
		return all
	}(), "all are told of")
	last := next.Outbox.Waiting[49].Notice
	require.Equal(t, 152, last.Times)
	require.Nil(t, last.Answer, "the answers differ")
}

// TestJiraAwayForADayCostsLittle counts the tries of a day.
func TestJiraAwayForADayCostsLittle(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.fail = unreachable(0, 24*time.Hour)
	b.tell(time.Second, told("a", team.HelpAsked, 1))
	b.tell(time.Hour, told("a", team.SessionFailed, 2))
	b.end(24*time.Hour, failure)
	require.Less(t, b.jira.calls["find"], 320)
	require.Len(t, b.jira.made, 1)
	require.Less(t, b.jira.made[0].at.Sub(morning), 24*time.Hour+6*time.Minute)
	require.Len(t, b.jira.made[0].comments, 1)
	require.Equal(t, []heard{{"a", workflows.TicketNews{Request: "a.request", Ticket: team.Ticket{Occurrences: 1, Trouble: "Jira does not answer; it is tried again"}}}}, b.heard,
		"one trouble is told once, and a session that has ended hears no more")
}

func TestWaitThatIsAskedForIsKept(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	var last time.Time
	b.jira.fail = func(_ string, at time.Time) (bool, error) {
		defer func() { last = at }()
		if last.IsZero() {
			return false, &team.TicketTrouble{Kind: team.Unreached, Message: "too many requests", RetryAfter: team.Duration(7 * time.Minute)}
		}
		return false, nil
	}
	b.tell(time.Second, told("a", team.HelpAsked, 1))
	b.tell(time.Second, told("b", team.HelpAsked, 1))
	b.end(20*time.Minute, failure)
	require.InDelta(t, (7*time.Minute + time.Second).Seconds(), b.jira.made[0].at.Sub(morning).Seconds(), 1)
}

func TestKnownTicketIsCommentedAndNeverMade(t *testing.T) {
	t.Parallel()
	b := newTicketBench(t)
	b.jira.made = []made{{key: "MD-5", at: morning}}
	first, last := told("a", team.HelpAsked, 1), told("a", team.SessionCompleted, 2)
	first.Jira, last.Jira, first.Quiet = nil, nil, true
	b.tell(time.Second, first)
	b.tell(time.Second, last)
	b.env.RegisterDelayedCallback(func() { b.jira.made[0].gone = true }, time.Minute)
	late := told("b", team.HelpAsked, 1)
	late.Jira = nil
	b.tell(2*time.Minute, late)
	next := b.end(8*24*time.Hour, workflows.TicketInput{Store: "s", Key: "MD-5"})
	require.Len(t, b.jira.made, 1)
	require.Zero(t, b.jira.calls["create"]+b.jira.calls["find"])
	require.Len(t, b.jira.made[0].comments, 2)
	require.Zero(t, b.jira.made[0].comments[0].occurrences)
	require.Equal(t, []heard{{"b", workflows.TicketNews{
		Request: "b.request",
		Ticket:  team.Ticket{Key: "MD-5", URL: "https://jira/browse/MD-5"},
	}}, {"b", workflows.TicketNews{
		Request: "b.request",
		Ticket:  team.Ticket{Key: "MD-5", URL: "https://jira/browse/MD-5", Trouble: "MD-5 is not there"},
	}}}, b.heard)
	require.Empty(t, next.Outbox.Waiting, "after a week nobody will read it")
}

func TestNoticesThatMakeNoSenseAreNotTold(t *testing.T) {
	t.Parallel()
	nameless, without := told("a", team.HelpAsked, 1), told("a", team.HelpAsked, 2)
	nameless.Notice.ID, without.Jira = "", nil
	for want, bad := range map[string]activities.Telling{"has no id": nameless, "how the ticket is made": without} {
		b := newTicketBench(t)
		var refused error
		b.env.RegisterDelayedCallback(func() {
			b.env.UpdateWorkflow(workflows.TellUpdate, "u", &testsuite.TestUpdateCallback{
				OnReject: func(err error) { refused = err }, OnAccept: func() {}, OnComplete: func(any, error) {},
			}, bad)
		}, time.Second)
		b.end(time.Minute, failure)
		require.ErrorContains(t, refused, want)
	}
}
