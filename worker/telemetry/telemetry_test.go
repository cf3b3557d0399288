package telemetry_test

import (
	"cmp"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/platform/httpserver"
	"github.com/maestro-hive/maestro/worker/telemetry"
	"github.com/maestro-hive/maestro/worker/telemetry/telemetrytest"
)

// variables is an environment.
func variables(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func start(t *testing.T, o telemetry.Options) *telemetry.Telemetry {
	t.Helper()
	if o.Getenv == nil {
		o.Getenv = variables()
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.Service = "test"
	tel, err := telemetry.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tel.Close() })
	return tel
}

func TestWhatIsExportedIsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	const here = "http://127.0.0.1:1"
	for _, c := range []struct {
		name                string
		environment         []string
		tracesOnly          bool
		metrics, interceptd bool
		fault               string
	}{
		{name: "nothing"},
		{name: "all by one endpoint", environment: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", here}, metrics: true, interceptd: true},
		{name: "a command's traces", environment: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", here}, tracesOnly: true, interceptd: true},
		{name: "traces", environment: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", here}, interceptd: true},
		{name: "metrics", environment: []string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", here}, metrics: true},
		{
			name: "no metrics", environment: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", here, "OTEL_METRICS_EXPORTER", "none"},
			interceptd: true,
		},
		{
			name: "over gRPC", environment: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", here, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
			metrics: true, interceptd: true,
		},
		{name: "disabled", environment: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", here, "OTEL_SDK_DISABLED", "True"}},
		{
			name: "unknown exporter", environment: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", here, "OTEL_TRACES_EXPORTER", "zipkin"},
			fault: `OTEL_TRACES_EXPORTER is "zipkin"; Maestro exports by otlp, or none`,
		},
		{
			name: "unknown protocol", environment: []string{
				"OTEL_EXPORTER_OTLP_ENDPOINT", here, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
				"http/json",
			},
			fault: `OTEL_EXPORTER_OTLP_METRICS_PROTOCOL is "http/json"; Maestro speaks http/protobuf and grpc`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tel, err := telemetry.Start(t.Context(), telemetry.Options{
				Service: "test", TracesOnly: c.tracesOnly, Getenv: variables(c.environment...), Clock: time.Now,
			})
			if c.fault != "" {
				require.EqualError(t, err, c.fault)
				return
			}
			require.NoError(t, err)
			t.Cleanup(func() { _ = tel.Close() }) // nobody listens at the endpoint
			var o client.Options
			tel.Instrument(&o)
			require.Equal(t, c.metrics, tel.Measures())
			require.Equal(t, c.metrics, o.MetricsHandler != nil)
			require.Equal(t, c.interceptd, len(o.Interceptors) > 0)
			require.Empty(t, tel.Address())
		})
	}
}

func TestMetricsAreServedOnlyWhereTheyCanBe(t *testing.T) {
	t.Parallel()
	tel := start(t, telemetry.Options{MetricsAddress: "127.0.0.1:0"})
	_, port, err := net.SplitHostPort(tel.Address())
	require.NoError(t, err)
	require.NotEqual(t, "0", port)
	require.Equal(t, "http://"+tel.Address()+"/metrics", tel.URL())
	answer, err := http.Get("http://" + tel.Address() + "/")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusNotFound, answer.StatusCode)

	_, err = telemetry.Start(t.Context(), telemetry.Options{MetricsAddress: tel.Address(), Getenv: variables(), Clock: time.Now})
	require.ErrorIs(t, err, httpserver.ErrListen)
	require.ErrorContains(t, err, "metrics cannot be served on "+tel.Address()+"; choose another --metrics-address: ")

	_, err = telemetry.Start(t.Context(), telemetry.Options{MetricsAddress: "9464", Getenv: variables(), Clock: time.Now})
	require.NotErrorIs(t, err, httpserver.ErrListen)
	require.EqualError(t, err, `metrics address "9464" is not a host and port, like 127.0.0.1:9464`)

	require.NoError(t, tel.Close())
	_, err = http.Get("http://" + tel.Address() + telemetry.MetricsPath)
	require.Error(t, err, "a closed one serves on")
}

// measured is a recorder whose figures can be read, and a clock to turn.
type measured struct {
	*telemetry.Recorder
	t   *testing.T
	url string
	now *time.Time
}

func measure(t *testing.T) measured {
	t.Helper()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	m := measured{t: t, now: &now}
	tel := start(t, telemetry.Options{MetricsAddress: "127.0.0.1:0", Version: "v1.2.3", Clock: func() time.Time { return *m.now }})
	m.Recorder, m.url = tel.Recorder(), tel.URL()
	m.Serves("st", map[string]int{"coder": 4})
	return m
}

func (m measured) pass(d time.Duration) { *m.now = m.now.Add(d) }

func (m measured) value(name string, labels ...string) float64 {
	m.t.Helper()
	return telemetrytest.Scrape(m.t, m.url).Must(m.t, name, labels...)
}

func TestWhatAlertsWatchIsThereFromTheStart(t *testing.T) {
	t.Parallel()
	m := measure(t)
	s := telemetrytest.Scrape(t, m.url)
	for _, series := range [][]string{
		{"maestro_rounds_total", "agent", "coder", "category", "token_budget"},
		{"maestro_attempts_total", "agent", "coder", "category", "ok"},
		{"maestro_workers_lost_total", "agent", "coder"},
		{"maestro_help_requests_total", "category", "test_failure"},
		{"maestro_store_wait_seconds_total"},
		{"maestro_calls_replayed_total", "agent", "coder"},
	} {
		require.Zero(t, s.Must(t, series[0], series[1:]...), "%v", series)
	}
	require.InDelta(t, 1, s.Must(t, "maestro_build_info", "version", "v1.2.3"), 0)
	_, looked := s.Value(t, "maestro_worker_polling")
	require.False(t, looked, "nobody has looked whether it polls")
	for name, family := range s {
		if strings.HasPrefix(name, "maestro_") || strings.HasPrefix(name, "gen_ai_") {
			require.NotEmpty(t, family.GetHelp(), name)
		}
	}
}

func TestCallsAreBookedOnceByTypeAndByTheConventions(t *testing.T) {
	t.Parallel()
	m := measure(t)
	call := activities.CallInfo{Team: "web", Session: "s-1", Agent: "coder", API: "anthropic", Model: "m-1"}
	_, ended := m.CallBegun(t.Context(), call)
	m.pass(3 * time.Second)
	ended(activities.CallOutcome{Stored: true, Usage: cost.Usage{
		InputTokens: 100, OutputTokens: 20, CacheReadTokens: 1000, CacheWriteTokens: 10, ReasoningTokens: 5, CostUSD: 1_500_000_000,
	}})
	_, ended = m.CallBegun(t.Context(), call)
	ended(activities.CallOutcome{Category: failures.RateLimited})
	m.CallReplayed(call)

	s := telemetrytest.Scrape(t, m.url)
	for kind, want := range map[string]float64{"input": 100, "output": 20, "cache_read": 1000, "cache_write": 10} {
		require.InDelta(t, want, s.Must(t, "maestro_tokens_total", "team", "web", "agent", "coder", "type", kind), 0, kind)
	}
	require.InDelta(t, 1.5, s.Must(t, "maestro_cost_usd_total", "team", "web", "agent", "coder"), 1e-9)
	require.InDelta(t, 1, s.Must(t, "maestro_calls_stored_total", "agent", "coder"), 0)
	require.InDelta(t, 1, s.Must(t, "maestro_calls_replayed_total", "agent", "coder"), 0)

	for _, api := range append(wire.APIs(), "of-another-provider") {
		_, ended = m.CallBegun(t.Context(), activities.CallInfo{Agent: "other", API: string(api)})
		ended(activities.CallOutcome{})
		name := map[wire.API]string{wire.Gemini: "gcp.gemini"}[api]
		telemetrytest.Scrape(t, m.url).Must(t, "gen_ai_client_operation_duration_seconds", "gen_ai_agent_name", "other",
			"gen_ai_operation_name", "chat", "gen_ai_provider_name", cmp.Or(name, string(api)))
	}
	for kind, want := range map[string]float64{"input": 1110, "output": 20} {
		found := false
		for _, series := range s["gen_ai_client_token_usage"].GetMetric() {
			labels := map[string]string{}
			for _, l := range series.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["gen_ai_token_type"] != kind {
				continue
			}
			found = true
			require.Equal(t, map[string]string{
				"gen_ai_token_type": kind, "gen_ai_operation_name": "chat", "gen_ai_provider_name": "anthropic",
				"gen_ai_request_model": "m-1", "gen_ai_agent_name": "coder",
			}, labels)
			require.EqualValues(t, 1, series.GetHistogram().GetSampleCount(), "a call without usage is not counted")
			require.InDelta(t, want, series.GetHistogram().GetSampleSum(), 0)
		}
		require.True(t, found, kind)
	}
	require.InDelta(t, 1, s.Must(t, "gen_ai_client_operation_duration_seconds", "error_type", "rate_limited"), 0)
	require.InDelta(t, 1, s.Must(t, "gen_ai_client_operation_duration_seconds", "error_type", ""), 0)
}

func TestTheBudgetThatIsFurthestShows(t *testing.T) {
	t.Parallel()
	m := measure(t)
	value := func() float64 { return m.value("maestro_budget_fraction_ratio", "team", "web", "scope", "session") }
	m.BudgetFraction("web", "session", 0.9)
	m.BudgetFraction("web", "session", 0.1) // another session of the team
	require.InDelta(t, 0.9, value(), 0)
	m.pass(time.Minute)
	m.BudgetFraction("web", "session", 0.2)
	require.InDelta(t, 0.2, value(), 0)
	m.pass(15 * time.Minute)
	_, there := telemetrytest.Scrape(t, m.url).Value(t, "maestro_budget_fraction_ratio")
	require.False(t, there, "nobody spends any more")
}

func TestABreakerShowsItsStateOfNow(t *testing.T) {
	t.Parallel()
	m := measure(t)
	state := func() float64 { return m.value("maestro_breaker_state", "store", "st", "breaker", "p") }
	since, until := *m.now, m.now.Add(time.Minute)
	open := session.BreakerStatus{
		Name: "p", State: session.BreakerIsOpen, Since: since, OpenUntil: &until, Generation: 1,
		Revision: 7,
	}
	m.Breaker(session.BreakerStatus{Name: "p", State: session.BreakerClosed})
	require.Zero(t, state())
	m.Breaker(open)
	require.InDelta(t, 2, state(), 0)
	// an older look, that comes late
	m.Breaker(session.BreakerStatus{Name: "p", State: session.BreakerClosed, Since: since, Revision: 6})
	require.InDelta(t, 2, state(), 0)
	m.pass(time.Minute)
	require.InDelta(t, 1, state(), 0, "its cooldown is over")
	m.Breaker(session.BreakerStatus{Name: "p", State: session.BreakerClosed, Since: since, Generation: 2, Revision: 9})
	require.Zero(t, state())
	require.InDelta(t, 2, m.value("maestro_breaker_transitions_total", "breaker", "p"), 0)
	open.Revision = 10
	m.Breaker(open)
	m.Look(telemetry.Fleet{Breakers: map[string]bool{"p": true}})
	require.NotZero(t, state())
	m.Look(telemetry.Fleet{Breakers: map[string]bool{"q": true}})
	_, there := telemetrytest.Scrape(t, m.url).Value(t, "maestro_breaker_state")
	require.False(t, there, "no agent of the worker has it any more: nobody would say that it is closed")
}
