package service_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/worker/telemetry"
	"github.com/maestro-hive/maestro/worker/telemetry/telemetrytest"
)

func noVariable(string) string { return "" }

// measured is telemetry that serves metrics on a free port.
func measured(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel, err := service.StartTelemetry(t.Context(), telemetry.Options{
		Service: service.ServiceName, Version: "test", MetricsAddress: "127.0.0.1:0", Getenv: noVariable, Clock: time.Now,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tel.Close()) })
	return tel
}

// measuredWork is a session whose first attempt fails, by an agent that is paid
// for both, and a session that needs help.
func measuredWork(t *testing.T, tel *telemetry.Telemetry) *stand {
	t.Helper()
	s := newStandWith(t, agent.Config{
		Agents: map[string]agent.Definition{
			"coder": shell(`cat > brief.json
				if grep -q '"attempt":1' brief.json; then echo bad > answer; else echo good > answer; fi
				echo '{"usage":{"input_tokens":100,"output_tokens":7,"cost_usd":0.25}}' > $MAESTRO_RESULT`),
			"hopeless": shell(`exit 3`),
		},
		Checks: map[string]agent.CheckDefinition{"is-good": check(`grep good answer`)},
	}, tel)
	soon := spec.Retry{Attempts: 2, Initial: textfmt.Duration(10 * time.Millisecond), RoundInitial: textfmt.Duration(10 * time.Millisecond)}
	phases := []spec.Phase{{Name: "build", Personas: []string{"dev"}}}
	_, err := s.run("good", spec.Team{
		Version: 1, Name: "web", Personas: map[string]spec.Persona{"dev": {Role: "d", Agent: "coder", Instructions: "do"}}, Retry: soon,
		Budget: spec.Budget{Tokens: 1000},
		Phases: []spec.Phase{{Name: "build", Personas: []string{"dev"}, Produces: []string{"answer"}, Checks: []string{"is-good"}}},
	})
	require.NoError(t, err)
	_, err = s.run("bad", spec.Team{
		Version: 1, Name: "lost", Personas: map[string]spec.Persona{"dev": {Role: "d", Agent: "hopeless", Instructions: "do"}}, Retry: soon,
		Phases: phases, Help: spec.Help{Mode: spec.HelpFail},
	})
	require.Error(t, err)
	return s
}

func TestASessionShowsInTheMetrics(t *testing.T) {
	t.Parallel()
	tel := measured(t)
	s := measuredWork(t, tel)
	var m telemetrytest.Scraped
	require.Eventually(t, func() bool { // gauges are updated now and then
		m = telemetrytest.Scrape(t, tel.URL())
		polls, _ := m.Value(t, "maestro_worker_polling")
		return polls == 1
	}, time.Minute, 100*time.Millisecond)

	for _, want := range []struct {
		value  float64
		series []string
	}{
		{1, []string{"maestro_sessions_started_total", "team", "web"}},
		{1, []string{"maestro_sessions_ended_total", "team", "web", "state", "completed"}},
		{1, []string{"maestro_sessions_ended_total", "team", "lost", "state", "failed"}},
		{1, []string{"maestro_assignments_ended_total", "team", "web", "state", "completed"}},
		{1, []string{"maestro_assignments_ended_total", "team", "lost", "state", "failed"}},
		{1, []string{"maestro_help_requests_total", "category", "unknown"}},
		{1, []string{"maestro_attempts_total", "agent", "coder", "category", "test_failure"}},
		{1, []string{"maestro_attempts_total", "agent", "coder", "category", "ok"}},
		{4, []string{"maestro_attempts_total", "agent", "hopeless", "category", "unknown"}},
		{1, []string{"maestro_rounds_total", "agent", "coder", "category", "ok"}},
		{2, []string{"maestro_rounds_total", "agent", "hopeless", "category", "unknown"}},
		{200, []string{"maestro_tokens_total", "team", "web", "agent", "coder", "type", "input"}},
		{14, []string{"maestro_tokens_total", "team", "web", "agent", "coder", "type", "output"}},
		{0.5, []string{"maestro_cost_usd_total", "team", "web", "agent", "coder"}},
		{0.214, []string{"maestro_budget_fraction_ratio", "team", "web", "scope", "session"}},
		{2, []string{"gen_ai_client_token_usage", "gen_ai_agent_name", "coder", "gen_ai_token_type", "output"}},
		{2, []string{"gen_ai_client_operation_duration_seconds", "gen_ai_agent_name", "coder"}},
		{4, []string{"gen_ai_client_operation_duration_seconds", "gen_ai_agent_name", "hopeless", "error_type", "unknown"}},
		{0, []string{"maestro_agent_slots_used", "agent", "coder"}},
		{1, []string{"maestro_agent_workers", "agent", "coder", "store", s.store.ID()}},
		{0, []string{"maestro_breaker_state", "breaker", "coder", "store", s.store.ID()}},
	} {
		require.InDelta(t, want.value, m.Must(t, want.series[0], want.series[1:]...), 1e-9, "%v", want.series)
	}
	require.Positive(t, m.Must(t, "maestro_agent_slots_limit", "agent", "coder"))
	requireFewSeries(t, m, "good", "bad")
}

// requireFewSeries holds the metrics against what must not be a label: whatever
// there is one of for every session.
func requireFewSeries(t *testing.T, m telemetrytest.Scraped, sessions ...string) {
	t.Helper()
	series := 0
	for name, family := range m {
		for _, metric := range family.GetMetric() {
			series += max(1, len(metric.GetHistogram().GetBucket()))
			for _, l := range metric.GetLabel() {
				require.NotContains(t, sessions, l.GetValue(), "%s: %s", name, l.GetName())
			}
		}
	}
	require.Less(t, series, 1500, "a worker with two agents has that many series")
}

// TestDashboardAndAlertsLookAtWhatThereIs looks up every metric that a query in
// deploy/ names in what a real worker serves.
func TestDashboardAndAlertsLookAtWhatThereIs(t *testing.T) {
	t.Parallel()
	tel := measured(t)
	measuredWork(t, tel)
	var m telemetrytest.Scraped
	require.Eventually(t, func() bool {
		m = telemetrytest.Scrape(t, tel.URL())
		_, looked := m.Value(t, "maestro_worker_polling")
		return looked
	}, time.Minute, 100*time.Millisecond)

	name := regexp.MustCompile(`\b(?:maestro|gen_ai|temporal|process)_[a-z_]+\b`)
	for _, file := range []string{"grafana/maestro.json", "prometheus/maestro.rules.yml"} {
		text, err := os.ReadFile(filepath.Join("../../deploy", file))
		require.NoError(t, err)
		found := 0
		for line := range bytes.Lines(text) {
			key, query, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
			if key != `"expr"` && key != "expr" {
				continue
			}
			for _, used := range name.FindAllString(query, -1) {
				if strings.HasPrefix(used, "gen_ai_agent_name") || strings.HasPrefix(used, "gen_ai_token_type") {
					continue // labels
				}
				found++
				require.Contains(t, m, strings.TrimSuffix(used, "_bucket"), "%s: %s", file, query)
			}
		}
		require.Greater(t, found, 10, file)
	}
}

func TestASessionWaitsUntilItsStatusCanBeWritten(t *testing.T) {
	t.Parallel()
	tel := measured(t)
	gates := t.TempDir()
	wait := func(gate string) agent.Definition {
		return shell(`while [ ! -f ` + filepath.Join(gates, gate) + ` ]; do sleep 0.02; done`)
	}
	s := newStandWith(t, agent.Config{Agents: map[string]agent.Definition{"a": wait("a"), "b": wait("b")}}, tel)
	open := func(gate string) { require.NoError(t, os.WriteFile(filepath.Join(gates, gate), nil, 0o600)) }
	waited := func() float64 { return telemetrytest.Scrape(t, tel.URL()).Must(t, "maestro_store_wait_seconds_total") }
	done := make(chan error, 1)
	go func() {
		_, err := s.run("s", spec.Team{
			Version: 1, Name: "t",
			Personas: map[string]spec.Persona{"a": {Role: "d", Agent: "a", Instructions: "do"}, "b": {Role: "d", Agent: "b", Instructions: "do"}},
			Phases:   []spec.Phase{{Name: "one", Personas: []string{"a"}}, {Name: "two", Personas: []string{"b"}}},
		})
		done <- err
	}()
	require.Eventually(t, func() bool {
		r, err := s.store.State.Record(t.Context(), state.Assignment{Key: s.key("s"), AssignmentID: spec.AssignmentID{Phase: "one", Persona: "a"}})
		return err == nil && r.Status().Status == session.Running
	}, time.Minute, 10*time.Millisecond)
	require.Zero(t, waited())

	database := statetest.SQLite(t, s.store.Dir())
	_, err := database.Exec(`create trigger full before update of revision on sessions begin select raise(fail, 'no space left on device'); end`)
	require.NoError(t, err)
	open("a")
	open("b")
	require.Eventually(t, func() bool { return waited() > 0 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, session.Pending, s.execution("s").Phases[0].Status)
	record, err := s.store.State.Record(t.Context(), state.Assignment{Key: s.key("s"), AssignmentID: spec.AssignmentID{Phase: "two", Persona: "b"}})
	require.NoError(t, err)
	require.Empty(t, record.Rounds, "nothing builds on a phase whose end nobody can read")
	_, err = database.Exec(`drop trigger full`)
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Equal(t, session.Completed, s.execution("s").Status.Status)
}
