package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/workflows"
)

// newJiraStand is a stand whose worker makes tickets.
func newJiraStand(t *testing.T, o jiratest.Options) (*stand, *jiratest.Server) {
	t.Helper()
	jira := jiratest.New(t, o)
	file := &agent.Jira{URL: jira.URL(), Deployment: agent.JiraCloud, EmailEnv: "MAIL", TokenEnv: "PAT", IndexDelay: textfmt.Duration(2 * time.Second)}
	if o.DataCenter {
		file.Deployment, file.EmailEnv = agent.JiraDataCenter, ""
	}
	return newStandIn(t, agent.Config{Agents: map[string]agent.Definition{"a": shell("exit 1")}, Jira: file}, nil,
		environment(map[string]string{"MAIL": jiratest.Email, "PAT": jiratest.Token})), jira
}

// helps is what a session says that cannot continue.
func helps(sessionID string, event session.Event, n int) activities.NotifyInput {
	return activities.NotifyInput{Notice: notice(sessionID, event, n), Jira: &spec.HelpJira{Project: "MD", Type: "Bug"}}
}

// readTicket returns what the newest run of a ticket's workflow shows: of the ticket of a
// failure, by its fingerprint, or of one with a key.
func readTicket(ctx context.Context, c client.Client, store, name string) (view workflows.TicketView, ok bool, err error) {
	ok, err = entityworkflow.Memo(ctx, c, workflows.TicketID(store, name), workflows.MemoTicket, &view)
	return view, ok, err
}

// ticket is what the workflow of a failure's ticket shows.
func (s *stand) ticket(fingerprint string) workflows.TicketView {
	s.t.Helper()
	view, _, err := readTicket(s.t.Context(), s.client, s.store.ID(), fingerprint)
	require.NoError(s.t, err)
	return view
}

// current waits until a ticket has all that it was told.
func (s *stand) current(fingerprint string) workflows.TicketView {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.ticket(fingerprint).State == workflows.TicketCurrent }, 90*time.Second, 50*time.Millisecond,
		"%+v", s.ticket(fingerprint))
	return s.ticket(fingerprint)
}

func TestOneFailureInSeveralSessionsIsOneTicket(t *testing.T) {
	t.Parallel()
	for _, o := range []jiratest.Options{{}, {DataCenter: true, ContextPath: "/jira"}} {
		t.Run(fmt.Sprintf("data center %t", o.DataCenter), func(t *testing.T) {
			t.Parallel()
			s, jira := newJiraStand(t, o)
			var all sync.WaitGroup
			for n := range 12 {
				all.Go(func() {
					for range 2 { // the second time, because nobody knows whether the first came through
						if _, err := s.notices().Notify(t.Context(), helps(fmt.Sprint("s", n), session.HelpAsked, 1)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			failure := s.tells(helps("s3", session.RequestClosed, 2)).Fingerprint
			view := s.current(failure)
			require.Equal(t, 12, view.Occurrences)
			issues := jira.Issues()
			require.Len(t, issues, 1)
			require.Equal(t, view.Key, issues[0].Key)
			require.Equal(t, jira.URL()+"/browse/"+view.Key, view.URL)
			require.Len(t, issues[0].Comments, 12)
			text := fmt.Sprintf("%s", issues[0].Comments)
			require.Contains(t, text, "12 times so far")
			require.Equal(t, 1, strings.Count(text, "session s3 continues")+strings.Count(text, "Session s3 continues"))
		})
	}
}

// TestJiraIsAwayForAWholeSession has all that a session has to say wait for Jira.
func TestJiraIsAwayForAWholeSession(t *testing.T) {
	t.Parallel()
	s, jira := newJiraStand(t, jiratest.Options{})
	jira.Fail(jiratest.Fault{Cut: true})
	failure := s.tells(helps("a", session.HelpAsked, 1)).Fingerprint
	s.tells(helps("a", session.RequestClosed, 2))
	s.tells(helps("a", session.SessionCompleted, 3))
	require.Eventually(t, func() bool { return s.ticket(failure).Kind == session.Unreached }, time.Minute, 50*time.Millisecond)
	require.Equal(t, 3, s.ticket(failure).Waiting)
	jira.Mend()
	s.current(failure)
	require.Len(t, jira.Issues(), 1)
	require.Len(t, jira.Issues()[0].Comments, 2)
	temporaltest.KeepHistory(t.Context(), t, s.client, workflows.TicketID(s.store.ID(), failure), "", *histories)
}

// TestTicketOverManyRuns has the workflow of a ticket continue as new while notices come.
func TestTicketOverManyRuns(t *testing.T) {
	t.Parallel()
	conn, err := temporalutil.DialAddress(t.Context(), temporaltest.Start(t, "--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=40"), "default", nil)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	jira := jiratest.New(t, jiratest.Options{})
	tickets, err := service.Jira(agent.Jira{URL: jira.URL(), Deployment: agent.JiraCloud, EmailEnv: "MAIL", TokenEnv: "PAT"},
		environment(map[string]string{"MAIL": jiratest.Email, "PAT": jiratest.Token}), time.Now)
	require.NoError(t, err)
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	records := &activities.TicketRecords{Store: st.State, Namespace: "default"}
	start := func() worker.Worker {
		calls := &activities.TicketCalls{Tickets: tickets, IndexDelay: textfmt.Duration(time.Second)}
		w := worker.New(conn.Client, spec.WorkflowQueue("store"), worker.Options{StickyScheduleToStartTimeout: time.Second})
		w.RegisterWorkflowWithOptions(workflows.Ticket, workflow.RegisterOptions{Name: workflows.TicketName})
		registerActivity(w, activities.LoadTicketName, records.Load)
		registerActivity(w, activities.SaveTicketName, records.Save)
		q := worker.New(conn.Client, spec.TicketQueue("store"), worker.Options{DisableWorkflowWorker: true})
		registerActivity(q, activities.FindTicketName, calls.Find)
		registerActivity(q, activities.CreateTicketName, calls.Create)
		registerActivity(q, activities.CommentTicketName, calls.Comment)
		require.NoError(t, w.Start())
		require.NoError(t, q.Start())
		t.Cleanup(q.Stop)
		return w
	}
	w := start()
	recipients := &service.Recipients{Temporal: conn.Client, Store: "store"}
	var all sync.WaitGroup
	for c := range 6 {
		all.Go(func() {
			for n := range 8 {
				in := helps(fmt.Sprintf("s%d-%d", c, n), session.HelpAsked, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				for range 2 {
					if err := recipients.NotifyFailure(ctx, "f00", activities.TicketNotice{Notice: in.Notice, Jira: in.Jira}); err != nil {
						t.Error(err)
					}
				}
				cancel()
			}
		})
	}
	w.Stop() // in the middle of it
	w = start()
	t.Cleanup(func() { w.Stop() })
	all.Wait()
	view := func() workflows.TicketView {
		v, _, err := readTicket(t.Context(), conn.Client, "store", "f00")
		require.NoError(t, err)
		return v
	}
	require.Eventually(t, func() bool { return view().State == workflows.TicketCurrent }, 90*time.Second, 50*time.Millisecond)
	require.Equal(t, 48, view().Occurrences)
	require.Len(t, jira.Issues(), 1)
	seen := map[string]bool{}
	for _, c := range jira.Issues()[0].Comments {
		text := string(c)
		at := strings.LastIndex(text, "maestro notice ")
		require.False(t, seen[text[at:]], "a comment is there twice")
		seen[text[at:]] = true
	}
	require.Contains(t, fmt.Sprintf("%s", jira.Issues()[0].Comments), "48 times so far")
	require.Eventually(t, func() bool {
		n, err := conn.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: fmt.Sprintf("WorkflowId = '%s' AND ExecutionStatus = 'ContinuedAsNew'", workflows.TicketID("store", "f00")),
		})
		return err == nil && n.GetCount() > 0
	}, time.Minute, 50*time.Millisecond, "it did continue as new")
}

// completed waits until the workflow of a ticket has completed.
func (s *stand) completed(fingerprint string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		d, err := s.client.DescribeWorkflowExecution(s.t.Context(), workflows.TicketID(s.store.ID(), fingerprint), "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	}, time.Minute, 20*time.Millisecond)
}

// TestTicketCompletesAndLaterNoticesReachIt: its workflow completes when the ticket has
// every notice, and Jira's search does not find the ticket. Two later notices at once go
// to the same ticket.
func TestTicketCompletesAndLaterNoticesReachIt(t *testing.T) {
	t.Parallel()
	s, jira := newJiraStand(t, jiratest.Options{IndexDelay: time.Hour})
	failure := s.tells(helps("first", session.HelpAsked, 1)).Fingerprint
	s.completed(failure)
	require.Len(t, jira.Issues(), 1)
	for n := range 3 {
		var both sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			both.Go(func() {
				if _, err := s.notices().Notify(t.Context(), helps(fmt.Sprint(name, n), session.HelpAsked, 1)); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		s.completed(failure)
	}
	s.tells(helps("first", session.HelpAsked, 1)) // sent again
	s.completed(failure)
	require.Len(t, jira.Issues(), 1)
	require.Len(t, jira.Issues()[0].Comments, 6)
	require.Equal(t, 7, s.ticket(failure).Occurrences)
	require.Equal(t, jira.Issues()[0].Key, s.ticket(failure).Key)
	temporaltest.KeepHistory(t.Context(), t, s.client, workflows.TicketID(s.store.ID(), failure), "", *histories)
}

// TestNoticesComeAsTheTicketCompletes: a notice that comes as the workflow completes is
// not lost, and none is delivered twice.
func TestNoticesComeAsTheTicketCompletes(t *testing.T) {
	t.Parallel()
	s, jira := newJiraStand(t, jiratest.Options{IndexDelay: time.Hour})
	failure := s.tells(helps("first", session.HelpAsked, 1)).Fingerprint
	s.completed(failure)
	var all sync.WaitGroup
	for c := range 3 {
		all.Go(func() {
			for n := range 15 {
				in := helps(fmt.Sprintf("s%d-%d", c, n), session.HelpAsked, 1)
				if _, err := s.notices().Notify(t.Context(), in); err != nil {
					t.Error(err)
				}
				for deadline := time.Now().Add(time.Minute); ; { // most likely the workflow completes then
					if v, _, err := readTicket(t.Context(), s.client, s.store.ID(), failure); err == nil && v.State == workflows.TicketCurrent || time.Now().After(deadline) {
						break
					}
				}
			}
		})
	}
	all.Wait()
	s.completed(failure)
	require.Len(t, jira.Issues(), 1)
	require.Len(t, jira.Issues()[0].Comments, 45)
	require.Equal(t, 46, s.ticket(failure).Occurrences)
}

// withTickets is a team that gives up at once, asks, and makes tickets.
func withTickets() spec.Team {
	tm := short(spec.Phase{Name: "one", Personas: []string{"dev"}, Produces: []string{"work.txt"}})
	tm.Help.Jira = &spec.HelpJira{Project: "MD"}
	return tm
}

// newNoteStand has an agent that waits for a person's note, and makes tickets.
func newNoteStand(t *testing.T) (*stand, *jiratest.Server) {
	t.Helper()
	jira := jiratest.New(t, jiratest.Options{})
	return newStandIn(t, agent.Config{
		Agents: map[string]agent.Definition{"a": needsNote()}, WebUI: "http://localhost:8233",
		Jira: &agent.Jira{
			URL: jira.URL(), Deployment: agent.JiraCloud, EmailEnv: "MAIL", TokenEnv: "PAT", IndexDelay: textfmt.Duration(time.Second),
		},
	}, nil, environment(map[string]string{"MAIL": jiratest.Email, "PAT": jiratest.Token})), jira
}

// TestSessionHasATicketThatFollowsIt parks, is helped, and completes; the ticket that the
// requirement came from hears of it, too.
func TestSessionHasATicketThatFollowsIt(t *testing.T) {
	t.Parallel()
	s, jira := newNoteStand(t)
	origin := jira.Add("MD", map[string]any{"summary": "A server"})
	run := s.start("s", withTickets(), func(in *workflows.SessionInput) { in.ReportTo = origin })
	require.Eventually(t, func() bool {
		h := s.asks("s")
		return h.Ticket != nil && h.Ticket.Key != ""
	}, time.Minute, 50*time.Millisecond)
	h := s.asks("s")
	require.Equal(t, session.Ticket{Key: "MD-2", URL: jira.URL() + "/browse/MD-2", Occurrences: 1}, *h.Ticket)
	_, err := s.answer("s", session.Answer{Request: h.ID, Action: session.AnswerRetry, Note: "use the other port", By: "ada"})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	s.current(h.Fingerprint("t"))
	require.Eventually(t, func() bool {
		issues := jira.Issues()
		return len(issues) == 2 && len(issues[0].Comments) == 3 && len(issues[1].Comments) == 2
	}, time.Minute, 50*time.Millisecond)
	issues := jira.Issues()
	require.Contains(t, string(issues[1].Fields["description"]), "maestro resolve s retry --request one.dev.1")
	require.Contains(t, string(issues[1].Fields["description"]), "http://localhost:8233/namespaces/"+s.namespace+"/workflows/s/"+run.GetRunID())
	for _, comments := range [][]json.RawMessage{issues[0].Comments[1:], issues[1].Comments} {
		require.Contains(t, string(comments[0]), "ada")
		require.Contains(t, string(comments[0]), "use the other port")
		require.Contains(t, string(comments[1]), "has completed its work")
	}
}

// TestSessionEndsWhileJiraIsAway is never held up, and its ticket follows.
func TestSessionEndsWhileJiraIsAway(t *testing.T) {
	t.Parallel()
	s, jira := newNoteStand(t)
	jira.Fail(jiratest.Fault{Cut: true})
	run := s.start("s", withTickets())
	h := s.asks("s")
	require.Eventually(t, func() bool {
		h = s.asks("s")
		return h.Ticket != nil && h.Ticket.Trouble != ""
	}, time.Minute, 50*time.Millisecond, "the session says what is in the way")
	_, err := s.answer("s", session.Answer{Request: h.ID, Action: session.AnswerRetry, Note: "use the other port", By: "ada"})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	require.Empty(t, jira.Issues())
	jira.Mend()
	s.current(h.Fingerprint("t"))
	require.Len(t, jira.Issues(), 1)
	require.Len(t, jira.Issues()[0].Comments, 2)
}

func registerActivity(q worker.Worker, name activities.Name, fn any) {
	q.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: string(name)})
}
