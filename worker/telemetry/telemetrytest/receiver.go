// Package telemetrytest takes what a process exports, as a collector and as
// Prometheus would.
package telemetrytest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver is an OTLP collector over HTTP.
type Receiver struct {
	// URL is its endpoint.
	URL string

	t       testing.TB
	mu      sync.Mutex
	spans   []Span
	metrics map[string]int
	bodies  [][]byte
}

// Span is a span with the service that it came from.
type Span struct {
	*tracepb.Span
	Service string
}

// Trace is the id of its trace, in hexadecimal digits.
func (s Span) Trace() string { return hex.EncodeToString(s.TraceId) }

// Text is an attribute that is a text; empty if there is none.
func (s Span) Text(key string) string { return text(s.GetAttributes(), key) }

// Int is an attribute that is a whole number; 0 if there is none.
func (s Span) Int(key string) int64 {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetIntValue()
		}
	}
	return 0
}

// Receive starts a collector that listens until the test ends.
func Receive(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{t: t, metrics: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(_ http.ResponseWriter, req *http.Request) {
		var export collectortrace.ExportTraceServiceRequest
		r.read(req, &export)
		r.takeSpans(&export)
	})
	mux.HandleFunc("POST /v1/metrics", func(_ http.ResponseWriter, req *http.Request) {
		var export collectormetrics.ExportMetricsServiceRequest
		r.read(req, &export)
		r.takeMetrics(&export)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *Receiver) read(req *http.Request, into proto.Message) {
	body, err := io.ReadAll(req.Body)
	assert.NoError(r.t, err)
	assert.Equal(r.t, "application/x-protobuf", req.Header.Get("Content-Type"))
	assert.NoError(r.t, proto.Unmarshal(body, into))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, body)
}

func (r *Receiver) takeSpans(export *collectortrace.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range export.GetResourceSpans() {
		service := text(resource.GetResource().GetAttributes(), "service.name")
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, Span{s, service})
			}
		}
	}
}

func (r *Receiver) takeMetrics(export *collectormetrics.ExportMetricsServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range export.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				r.metrics[m.GetName()]++
			}
		}
	}
}

// Spans lists what has come so far, in the order of arrival.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Named lists the spans of a name.
func (r *Receiver) Named(name string) []Span {
	return slices.DeleteFunc(r.Spans(), func(s Span) bool { return s.Name != name })
}

// Metric reports whether a metric of that name has come.
func (r *Receiver) Metric(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.metrics[name] > 0
}

// Bodies are the requests that have come, as they came.
func (r *Receiver) Bodies() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies)
}

func text(attributes []*commonpb.KeyValue, key string) string {
	for _, a := range attributes {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}
