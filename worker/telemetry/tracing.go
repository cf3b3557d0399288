package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// temporalMetrics lets Temporal's SDK use this meter.
func temporalMetrics(m metric.Meter, logger *slog.Logger) client.MetricsHandler {
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: m, UseMonotonicCounters: true,
		OnError: func(err error) {
			if logger != nil {
				logger.Warn("a metric of Temporal's SDK is lost", "error", err)
			}
		},
	})
}

// temporalBounds are the buckets of the SDK's latencies, in seconds.
var temporalBounds = []float64{0.01, 0.1, 1, 10, 60, 600, 3600}

// temporalView keeps the SDK's latencies to a few buckets, and leaves out what it
// measures of each try of a request, besides the request.
func temporalView(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
	if !strings.HasPrefix(i.Name, "temporal_") {
		return sdkmetric.Stream{}, false
	}
	s := sdkmetric.Stream{Name: i.Name, Description: "A metric of Temporal's SDK.", Unit: i.Unit}
	switch {
	case strings.HasSuffix(i.Name, "_attempt"):
		s.Aggregation = sdkmetric.AggregationDrop{}
	case i.Kind == sdkmetric.InstrumentKindHistogram:
		s.Aggregation = sdkmetric.AggregationExplicitBucketHistogram{Boundaries: temporalBounds}
	}
	return s, true
}

// interceptors trace a client and the workers made of it: from the command that
// starts a session through its workflow to its activities is one trace. Queries
// and updates are left out: they are how breakers are asked, all the time.
func interceptors(t trace.Tracer) []interceptor.ClientInterceptor {
	traced := interceptor.NewTracingInterceptor(tracing{newTracer(opentelemetry.TracerOptions{Tracer: t, SpanStarter: discreet}), t})
	return []interceptor.ClientInterceptor{traced, &completions{}}
}

// newTracer is Temporal's own. It fails for no options.
func newTracer(o opentelemetry.TracerOptions) interceptor.Tracer {
	o.DisableQueryTracing, o.DisableUpdateTracing, o.DisableBaggage = true, true, true
	t, err := opentelemetry.NewTracer(o)
	if err != nil {
		panic(err)
	}
	return t
}

// tracing is Temporal's tracer with workflow spans that are the same after replays: a workflow is
// replayed from its history on every worker that takes it over, and each replay would otherwise be
// a separate span.
type tracing struct {
	interceptor.Tracer
	tracer trace.Tracer
}

// StartSpan gives a span the same identity on every replay, if what it stands for
// is replayed.
func (t tracing) StartSpan(o *interceptor.TracerStartSpanOptions) (interceptor.TracerSpan, error) {
	if o.IdempotencyKey == "" {
		return t.Tracer.StartSpan(o)
	}
	return newTracer(opentelemetry.TracerOptions{Tracer: t.tracer, SpanStarter: func(ctx context.Context, t trace.Tracer,
		name string, with ...trace.SpanStartOption,
	) trace.Span {
		_, span := t.Start(context.WithValue(ctx, identityKey{}, o.IdempotencyKey), name, with...)
		return &replayedSpan{discreetSpan: discreetSpan{span}}
	}}).StartSpan(o)
}

// identityKey is where a context has what a span's identity is derived from.
type identityKey struct{}

// identities makes the ids of traces and spans: at random, or out of what the
// context says.
type identities struct{}

// NewIDs makes those of a span that begins a trace.
func (i identities) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	fill(ctx, id[:], "trace ")
	return id, i.NewSpanID(ctx, id)
}

// NewSpanID makes that of a span within a trace.
func (identities) NewSpanID(ctx context.Context, _ trace.TraceID) (id trace.SpanID) {
	fill(ctx, id[:], "span ")
	return id
}

// fill makes an id of a kind.
func fill(ctx context.Context, id []byte, kind string) {
	if key, derived := ctx.Value(identityKey{}).(string); derived {
		sum := sha256.Sum256([]byte(kind + key))
		copy(id, sum[:])
		return
	}
	_, _ = rand.Read(id) // never fails
}

// discreet starts spans that record only the type of an error: its message may contain text of an
// agent.
func discreet(ctx context.Context, t trace.Tracer, name string, with ...trace.SpanStartOption) trace.Span {
	_, span := t.Start(ctx, name, with...)
	return discreetSpan{span}
}

type discreetSpan struct{ trace.Span }

// RecordError keeps the error's type.
func (s discreetSpan) RecordError(err error, _ ...trace.EventOption) {
	if err != nil {
		s.SetAttributes(semconv.ErrorTypeKey.String(errorType(err)))
	}
}

// SetStatus leaves out the description.
func (s discreetSpan) SetStatus(code codes.Code, _ string) { s.Span.SetStatus(code, "") }

func errorType(err error) string {
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &app):
		return app.Type()
	case temporal.IsCanceledError(err), errors.Is(err, context.Canceled):
		return "cancelled"
	case temporal.IsTimeoutError(err), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "unknown"
}

// replayedSpan is exported once, when its workflow has really ended: a workflow that is evicted
// from a worker's cache has not.
type replayedSpan struct {
	discreetSpan
	over bool
}

// End ends the span if it is over.
func (s *replayedSpan) End(o ...trace.SpanEndOption) {
	if s.over {
		s.Span.End(o...)
	}
}

// completions notes on a workflow's span that the workflow ended, and not in a
// replay. It goes inside the interceptor that makes the span.
type completions struct{ interceptor.InterceptorBase }

// InterceptWorkflow watches a workflow.
func (*completions) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &completion{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type completion struct {
	interceptor.WorkflowInboundInterceptorBase
}

// ExecuteWorkflow runs the workflow.
func (c *completion) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	result, err := c.Next.ExecuteWorkflow(ctx, in)
	if span, found := opentelemetry.SpanFromWorkflowContext(ctx); found && !workflow.IsReplaying(ctx) {
		if replayed, is := span.(*replayedSpan); is {
			replayed.over = true
		}
	}
	return result, err
}
