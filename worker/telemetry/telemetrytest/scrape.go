package telemetrytest

import (
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// Scraped is what an endpoint has answered, by the name of the metric.
type Scraped map[string]*dto.MetricFamily

// Scrape asks an endpoint as Prometheus does.
func Scrape(t testing.TB, url string) Scraped {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	require.NoError(t, err)
	return families
}

// Value is a counter's or gauge's value, or a histogram's number of
// observations, of the one series that has these labels, as name, value, name,
// value; false if there is none.
func (s Scraped) Value(t testing.TB, name string, labels ...string) (float64, bool) {
	t.Helper()
	var found []*dto.Metric
	for _, m := range s[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		matches := true
		for i := 0; i < len(labels); i += 2 {
			matches = matches && has[labels[i]] == labels[i+1]
		}
		if matches {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return 0, false
	}
	require.Len(t, found, 1, "%s%v is not one series", name, labels)
	switch m := found[0]; {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue(), true
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue(), true
	default:
		return float64(m.GetHistogram().GetSampleCount()), true
	}
}

// Must is Value of a series that has to be there.
func (s Scraped) Must(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	v, there := s.Value(t, name, labels...)
	require.True(t, there, "there is no %s%v", name, labels)
	return v
}
