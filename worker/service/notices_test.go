package service_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/workflows"
)

// tells sends a notice as the activity of the stand's worker does, and returns the failure's fingerprint.
func (s *stand) tells(in activities.NotifyInput) string {
	notices := &activities.Notices{
		Recipients: &service.Recipients{Temporal: s.client, Store: s.store.ID()}, Mask: func(text string) string { return text },
	}
	out, err := notices.Notify(s.t.Context(), in)
	if err != nil {
		s.t.Error(err) // also from other goroutines
	}
	return out.Fingerprint
}

func notice(id string, event session.Event) session.Notice {
	return session.Notice{
		ID: id + ".1", Event: event, At: time.Now().UTC(), Session: id, RunID: "run", Namespace: "default", Team: "t",
		Status: session.HelpIsNeeded, Request: &session.Request{
			ID: id + ".request", Kind: session.ForHelp, Phase: "build", Persona: "dev", Category: failures.TestFailure,
			Message:  "3 tests fail",
			Actions:  []session.Action{session.AnswerRetry, session.AnswerAbort},
			Attempts: []session.AttemptFailure{{Category: failures.TestFailure, Message: "3 tests fail"}},
		},
	}
}

// newWebhookStand is a stand with a webhook, which answers with the statuses one after the other and then with 200.
func newWebhookStand(t *testing.T, statuses ...int) (s *stand, url string, heard func() int) {
	t.Helper()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var n session.Notice
		if err := json.NewDecoder(req.Body).Decode(&n); err != nil || n.Request.Message != "3 tests fail" {
			t.Errorf("notice %+v: %v", n, err)
		}
		if call := int(calls.Add(1)); call <= len(statuses) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(statuses[call-1])
		}
	}))
	t.Cleanup(server.Close)
	s = newStand(t, agent.Config{Agents: shells(map[string]string{"a": "true"}), Webhook: &agent.Webhook{URLEnv: "HOOK"}},
		standOptions{variables: map[string]string{"HOOK": server.URL + "/verysecret"}})
	return s, server.URL, func() int { return int(calls.Load()) }
}

func TestWebhookHearsOfEveryNoticeOnce(t *testing.T) {
	t.Parallel()
	s, _, heard := newWebhookStand(t, http.StatusServiceUnavailable)
	in := activities.NotifyInput{Notice: notice("s", session.HelpAsked), Webhook: true}
	for range 3 {
		s.tells(in) // said again, it counts once
	}
	id := workflows.WebhookID(s.store.ID(), "s.1")
	require.NoError(t, s.client.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil))
	s.keepHistory(id, "")
	require.Equal(t, 2, heard(), "the first was answered with 503")
	s.tells(in)
	require.Equal(t, 2, heard(), "a notice that was handed over stays so")
}

func TestWebhookThatRefusesEndsAtOnceAndSaysWhy(t *testing.T) {
	t.Parallel()
	s, url, heard := newWebhookStand(t, http.StatusNotFound)
	s.tells(activities.NotifyInput{Notice: notice("s", session.SessionFailed), Webhook: true})
	id := workflows.WebhookID(s.store.ID(), "s.1")
	require.ErrorContains(t, s.client.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil),
		"the webhook answered 404 Not Found; the notice is dropped")
	require.Equal(t, 1, heard())
	history := s.client.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(t, err)
		require.NotContains(t, event.String(), "verysecret")
		require.NotContains(t, event.String(), url)
	}
}

func TestWorkerFileNamesAWebhookThatIsNotThere(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]agent.Config{
		"webhook.url_env names NONE: the webhook's address is not an http or https URL": {Webhook: &agent.Webhook{URLEnv: "NONE"}},
		"webhook.secret_env names NONE, which is not set": {Webhook: &agent.Webhook{
			URLEnv:    "HOOK",
			SecretEnv: "NONE",
		}},
		"jira: Jira at jira.example.org: the credentials are incomplete; set NONE": {
			Jira: &agent.Jira{URL: "https://jira.example.org", Deployment: agent.JiraDataCenter, TokenEnv: "NONE"},
		},
	} {
		cfg.Version, cfg.Agents = 1, shells(map[string]string{"a": "true"})
		_, err := service.Setup{
			Config: cfg, StateDir: t.TempDir(), Getenv: environment(map[string]string{"HOOK": "https://example.org", "NONE": ""}),
			Host:  "test",
			Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		}.Build()
		require.ErrorContains(t, err, want)
	}
}

// newJiraStand is a stand whose worker makes tickets, and whose agent waits for a person's note.
func newJiraStand(t *testing.T, o jiratest.Options) (*stand, *jiratest.Server) {
	t.Helper()
	jira := jiratest.New(t, o)
	file := &agent.Jira{
		URL: jira.URL(), Deployment: agent.JiraCloud, EmailEnv: "MAIL", TokenEnv: "PAT",
		IndexDelay: textfmt.Duration(time.Second),
	}
	if o.DataCenter {
		file.Deployment, file.EmailEnv = agent.JiraDataCenter, ""
	}
	return newStand(t, agent.Config{Agents: shells(map[string]string{"a": needsNote}), Jira: file, WebUI: "http://localhost:8233"},
		standOptions{variables: map[string]string{"MAIL": jiratest.Email, "PAT": jiratest.Token}}), jira
}

// helps is what a session says that cannot continue.
func helps(id string) activities.NotifyInput {
	return activities.NotifyInput{Notice: notice(id, session.HelpAsked), Jira: &spec.HelpJira{Project: "MD", Type: "Bug"}}
}

// ticket is what the workflow of a failure's ticket shows.
func (s *stand) ticket(fingerprint string) (view workflows.TicketView) {
	s.t.Helper()
	_, err := entityworkflow.Memo(s.t.Context(), s.client, workflows.TicketID(s.store.ID(), fingerprint), workflows.MemoTicket,
		&view)
	require.NoError(s.t, err)
	return view
}

// completed waits until the workflow of a ticket has completed, because the ticket has every notice.
func (s *stand) completed(fingerprint string) {
	s.t.Helper()
	s.eventually("the ticket's workflow completes", func() bool {
		d, err := s.client.DescribeWorkflowExecution(s.t.Context(), workflows.TicketID(s.store.ID(), fingerprint), "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	})
}

// TestOneFailureInSeveralSessionsIsOneTicket, also when notices come as the ticket's workflow completes, and
// while Jira's search does not find the ticket yet: none is lost, and none is delivered twice.
func TestOneFailureInSeveralSessionsIsOneTicket(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]jiratest.Options{
		"cloud":       {IndexDelay: time.Hour},
		"data center": {DataCenter: true, ContextPath: "/jira", IndexDelay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, jira := newJiraStand(t, o)
			jira.Fail(jiratest.Fault{Cut: true})
			failure := s.tells(helps("first"))
			s.eventually("Jira is away", func() bool { return s.ticket(failure).Kind == session.Unreached })
			jira.Mend()
			s.completed(failure)
			var all sync.WaitGroup
			for c := range 3 {
				all.Go(func() {
					for n := range 10 {
						in := helps(fmt.Sprintf("s%d-%d", c, n))
						s.tells(in)
						s.tells(in) // because nobody knows whether the first came through
						for deadline := time.Now().Add(time.Minute); s.ticket(failure).State != workflows.TicketCurrent &&
							time.Now().Before(deadline); {
							continue // most likely the workflow completes then
						}
					}
				})
			}
			all.Wait()
			s.completed(failure)
			view, issues := s.ticket(failure), jira.Issues()
			require.Equal(t, 31, view.Occurrences)
			require.Len(t, issues, 1)
			require.Len(t, issues[0].Comments, 30)
			require.Contains(t, fmt.Sprintf("%s", issues[0].Comments), "31 times so far")
			require.Equal(t, issues[0].Key, view.Key)
			require.Equal(t, jira.URL()+"/browse/"+view.Key, view.URL)
			s.keepHistory(workflows.TicketID(s.store.ID(), failure), "")
		})
	}
}

// TestSessionHasATicketThatFollowsIt waits for help, is helped, and completes; the ticket that the
// requirement came from hears of it, too.
func TestSessionHasATicketThatFollowsIt(t *testing.T) {
	t.Parallel()
	s, jira := newJiraStand(t, jiratest.Options{})
	origin := jira.Add("MD", map[string]any{"summary": "A server"})
	tm := team(phase("one", "a"))
	tm.Help.Jira = &spec.HelpJira{Project: "MD"}
	run := s.start(sessionID, tm, func(in *workflows.SessionInput) { in.ReportTo = origin })
	e := s.shows("it has a ticket", func(e session.Execution) bool {
		return len(e.Help) == 1 && e.Help[0].Ticket != nil && e.Help[0].Ticket.Key != ""
	})
	require.Equal(t, session.Ticket{Key: "MD-2", URL: jira.URL() + "/browse/MD-2", Occurrences: 1}, *e.Help[0].Ticket)
	s.answers(session.AnswerRetry, "use the other port")
	_, err := s.ends(run)
	require.NoError(t, err)
	s.eventually("both tickets know", func() bool {
		issues := jira.Issues()
		return len(issues) == 2 && len(issues[0].Comments) == 3 && len(issues[1].Comments) == 2
	})
	issues := jira.Issues()
	require.Contains(t, string(issues[1].Fields["description"]), "maestro resolve s retry --request one.a.1")
	require.Contains(t, string(issues[1].Fields["description"]), "http://localhost:8233/namespaces/"+s.namespace+"/workflows/s/"+
		run.GetRunID())
	for _, comments := range [][]json.RawMessage{issues[0].Comments[1:], issues[1].Comments} {
		require.Contains(t, string(comments[0]), "ada")
		require.Contains(t, string(comments[0]), "use the other port")
		require.Contains(t, string(comments[1]), "has completed its work")
	}
}
