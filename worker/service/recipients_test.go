package service_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/workflows"
)

// environment is the test's own, with some variables set.
func environment(set map[string]string) func(string) string {
	return func(name string) string {
		if value, ok := set[name]; ok {
			return value
		}
		return os.Getenv(name)
	}
}

// recipients are those of the stand's worker.
func (s *stand) recipients() *service.Recipients {
	return &service.Recipients{Temporal: s.client, Store: s.store.ID()}
}

// notices is the activity that takes notices, as the stand's worker has it.
func (s *stand) notices() *activities.Notices {
	return &activities.Notices{Recipients: s.recipients(), Mask: func(text string) string { return text }}
}

// tells sends a notice.
func (s *stand) tells(in activities.NotifyInput) activities.Notified {
	s.t.Helper()
	out, err := s.notices().Notify(s.t.Context(), in)
	require.NoError(s.t, err)
	return out
}

// receiver is who hears of sessions over HTTP.
type receiver struct {
	mu   sync.Mutex
	got  []session.Notice
	fail func(n int) (status int)
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var n session.Notice
	_ = json.NewDecoder(req.Body).Decode(&n)
	r.got = append(r.got, n)
	if r.fail != nil {
		if status := r.fail(len(r.got)); status != 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
		}
	}
}

func (r *receiver) heard() []session.Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]session.Notice(nil), r.got...)
}

func notice(sessionID string, event session.Event, n int) session.Notice {
	return session.Notice{
		ID: fmt.Sprintf("%s.%d", sessionID, n), Event: event, At: time.Now().UTC(), Session: sessionID, RunID: "run", Namespace: "default", Team: "t",
		Status: session.HelpIsNeeded, Request: &session.Request{
			ID: sessionID + ".request", Kind: session.ForHelp, Phase: "build", Persona: "dev", Category: failures.TestFailure, Message: "3 tests fail",
			Actions: []session.Action{session.AnswerRetry, session.AnswerAbort}, Attempts: []session.AttemptFailure{{Category: failures.TestFailure, Message: "3 tests fail"}},
		},
	}
}

func TestWebhookHearsOfEveryNoticeOnce(t *testing.T) {
	t.Parallel()
	r := &receiver{fail: func(n int) int {
		if n == 1 {
			return http.StatusServiceUnavailable
		}
		return 0
	}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	s := newStandIn(t, agent.Config{
		Agents: map[string]agent.Definition{"a": shell("true")}, Webhook: &agent.Webhook{URLEnv: "HOOK"},
	}, nil, environment(map[string]string{"HOOK": server.URL + "/verysecret"}))
	offers, err := s.store.State.Offers(t.Context())
	require.NoError(t, err)
	require.True(t, offers[0].Webhook)
	require.False(t, offers[0].Jira)

	in := activities.NotifyInput{Notice: notice("s", session.HelpAsked, 1), Webhook: true}
	for range 3 {
		s.tells(in) // said again, it counts once
	}
	id := workflows.WebhookID(s.store.ID(), "s.1")
	require.NoError(t, s.client.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil))
	temporaltest.KeepHistory(t.Context(), t, s.client, id, "", *histories)
	got := r.heard()
	require.Len(t, got, 2, "the first was answered with 503")
	require.Equal(t, "s.1", got[1].ID)
	require.Equal(t, "3 tests fail", got[1].Request.Message)
	s.tells(in)
	require.Len(t, r.heard(), 2, "a notice that was handed over stays so")
}

func TestWebhookThatRefusesEndsAtOnceAndSaysWhy(t *testing.T) {
	t.Parallel()
	r := &receiver{fail: func(int) int { return http.StatusNotFound }}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	s := newStandIn(t, agent.Config{
		Agents: map[string]agent.Definition{"a": shell("true")}, Webhook: &agent.Webhook{URLEnv: "HOOK"},
	}, nil, environment(map[string]string{"HOOK": server.URL + "/verysecret"}))
	s.tells(activities.NotifyInput{Notice: notice("s", session.SessionFailed, 1), Webhook: true})
	id := workflows.WebhookID(s.store.ID(), "s.1")
	err := s.client.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil)
	require.ErrorContains(t, err, "the webhook answered 404 Not Found; the notice is dropped")
	require.Len(t, r.heard(), 1)

	history := s.client.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(t, err)
		require.NotContains(t, event.String(), "verysecret")
		require.NotContains(t, event.String(), server.URL)
	}
}

func TestWorkerFileNamesAWebhookThatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg  agent.Config
		env  map[string]string
		want string
	}{
		"no address": {agent.Config{Webhook: &agent.Webhook{URLEnv: "HOOK"}}, nil, "webhook.url_env names HOOK: the webhook's address is not an http or https URL"},
		"no secret": {
			agent.Config{Webhook: &agent.Webhook{URLEnv: "HOOK", SecretEnv: "KEY"}},
			map[string]string{"HOOK": "https://example.org"},
			"webhook.secret_env names KEY, which is not set",
		},
		"no token": {
			agent.Config{Jira: &agent.Jira{URL: "https://jira.example.org", Deployment: agent.JiraDataCenter, TokenEnv: "PAT"}},
			nil,
			"jira: Jira at jira.example.org: the credentials are incomplete; set PAT",
		},
	} {
		tt.cfg.Version, tt.cfg.Agents = 1, map[string]agent.Definition{"a": shell("true")}
		_, err := service.Setup{
			Config: tt.cfg, StateDir: t.TempDir(), Getenv: func(name string) string { return tt.env[name] }, Host: "test", Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		}.Build()
		require.ErrorContains(t, err, tt.want, name)
	}
}
