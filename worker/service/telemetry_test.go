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

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/worker/telemetry"
	"github.com/maestro-hive/maestro/worker/telemetry/telemetrytest"
)

// TestASessionShowsInTheMetrics: of a session whose first attempt fails, by an agent that is paid
// for both, and of one that needs help.
func TestASessionShowsInTheMetrics(t *testing.T) {
	t.Parallel()
	tel, err := service.StartTelemetry(t.Context(), telemetry.Options{
		Service: service.ServiceName, Version: "test", MetricsAddress: "127.0.0.1:0", Getenv: func(string) string { return "" },
		Clock: time.Now,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tel.Close()) })
	s := newStand(t, agent.Config{
		Agents: shells(map[string]string{
			"coder": `if told '"attempt":1'; then echo bad > answer; else echo good > answer; fi
				report '{"usage":{"input_tokens":100,"output_tokens":7,"cost_usd":0.25}}'`,
			"hopeless": `exit 3`,
		}),
		Checks: map[string]agent.CheckDefinition{"check": check(`grep good answer`)},
	}, standOptions{telemetry: tel})
	soon := spec.Retry{
		Attempts: 2, Initial: textfmt.Duration(10 * time.Millisecond),
		RoundInitial: textfmt.Duration(10 * time.Millisecond),
	}
	web, lost := team(checked(phase("build", "coder"))), team(phase("build", "hopeless"))
	web.Name, web.Retry, web.Budget.Tokens = "web", soon, 1000
	lost.Name, lost.Retry, lost.Help.Mode = "lost", soon, spec.HelpFail
	require.NoError(t, s.start("good", web).Get(t.Context(), nil))
	require.Error(t, s.start("bad", lost).Get(t.Context(), nil))

	var m telemetrytest.Scraped
	s.eventually("the gauges are updated", func() bool {
		m = telemetrytest.Scrape(t, tel.URL())
		polls, _ := m.Value(t, "maestro_worker_polling")
		return polls == 1
	})
	for _, want := range []struct {
		value  float64
		series string
	}{
		{1, "maestro_sessions_started_total team web"},
		{1, "maestro_sessions_ended_total team web state completed"},
		{1, "maestro_sessions_ended_total team lost state failed"},
		{1, "maestro_assignments_ended_total team web state completed"},
		{1, "maestro_assignments_ended_total team lost state failed"},
		{1, "maestro_help_requests_total category unknown"},
		{1, "maestro_attempts_total agent coder category test_failure"},
		{1, "maestro_attempts_total agent coder category ok"},
		{4, "maestro_attempts_total agent hopeless category unknown"},
		{1, "maestro_rounds_total agent coder category ok"},
		{2, "maestro_rounds_total agent hopeless category unknown"},
		{200, "maestro_tokens_total team web agent coder type input"},
		{14, "maestro_tokens_total team web agent coder type output"},
		{0.5, "maestro_cost_usd_total team web agent coder"},
		{0.214, "maestro_budget_fraction_ratio team web scope session"},
		{2, "gen_ai_client_token_usage gen_ai_agent_name coder gen_ai_token_type output"},
		{2, "gen_ai_client_operation_duration_seconds gen_ai_agent_name coder"},
		{4, "gen_ai_client_operation_duration_seconds gen_ai_agent_name hopeless error_type unknown"},
		{0, "maestro_agent_slots_used agent coder"},
		{1, "maestro_agent_workers agent coder store " + s.store.ID()},
		{0, "maestro_breaker_state breaker coder store " + s.store.ID()},
	} {
		series := strings.Fields(want.series)
		require.InDelta(t, want.value, m.Must(t, series[0], series[1:]...), 1e-9, want.series)
	}
	require.Positive(t, m.Must(t, "maestro_agent_slots_limit", "agent", "coder"))
	requireFewSeries(t, m, "good", "bad")
	requireWhatIsLookedAt(t, m)
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

// requireWhatIsLookedAt looks up every metric that a query in deploy/ names.
func requireWhatIsLookedAt(t *testing.T, m telemetrytest.Scraped) {
	t.Helper()
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
