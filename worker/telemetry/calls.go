package telemetry

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// calls measures paid calls, by OpenTelemetry's conventions for generative AI
// and, for money and teams, by names of our own.
type calls struct {
	usage    metric.Int64Histogram
	duration metric.Float64Histogram

	tokens, stored, replayed, differing metric.Int64Counter
	cost                                metric.Float64Counter
}

// The buckets that the conventions give: powers of four for tokens and of two
// for seconds. An agent that is paid by the attempt takes longer than a model,
// so there are more of these.
var (
	tokenBounds = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	callBounds  = []float64{
		0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
		163.84, 327.68, 655.36, 1310.72, 2621.44,
	}
)

func (c *calls) define(i *instruments) {
	usage, err := genaiconv.NewClientTokenUsage(i.meter, metric.WithExplicitBucketBoundaries(tokenBounds...))
	i.failed = append(i.failed, err)
	duration, err := genaiconv.NewClientOperationDuration(i.meter, metric.WithExplicitBucketBoundaries(callBounds...))
	i.failed = append(i.failed, err)
	c.usage, c.duration = usage.Inst(), duration.Inst()
	c.tokens = i.counter("maestro.tokens", "{token}", "Tokens that were paid for, by type: input, output, cache_read, "+
		"cache_write. Each token has one type.")
	c.stored = i.counter("maestro.calls.stored", "{call}", "Paid calls whose answer was stored.")
	c.replayed = i.counter("maestro.calls.replayed", "{call}", "Calls that were not paid for, since the answer was stored.")
	c.differing = i.counter("maestro.calls.differing", "{call}",
		"Paid calls whose counts do not agree with the provider's own total or cost. The higher figure is booked.")
	c.cost, err = i.meter.Float64Counter("maestro.cost_usd", metric.WithUnit("{USD}"),
		metric.WithDescription("Money spent, in US dollars."))
	i.failed = append(i.failed, err)
}

// begin publishes an agent's figures that alerts and dashboards look at.
func (c *calls) begin(ctx context.Context, agent string) {
	c.stored.Add(ctx, 0, metric.WithAttributes(agentKey.String(agent)))
	c.differing.Add(ctx, 0, metric.WithAttributes(agentKey.String(agent)))
	c.replayed.Add(ctx, 0, metric.WithAttributes(agentKey.String(agent)))
}

// CallBegun opens a call's span, and measures the call when it ends.
func (r *Recorder) CallBegun(ctx context.Context, call activities.CallInfo) (context.Context, func(activities.CallOutcome)) {
	began := r.clock()
	attributes := callAttributes(call)
	ctx, span := r.tracer.Start(ctx, callName(call), trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attributes...), trace.WithAttributes(semconv.GenAIConversationID(call.Session)))
	if call.Server != "" {
		span.SetAttributes(semconv.ServerAddress(call.Server))
	}
	return ctx, func(end activities.CallOutcome) {
		now := r.clock()
		r.calls.record(ctx, call, end, attributes, now.Sub(began))
		span.SetAttributes(usageAttributes(end.Usage)...)
		span.SetAttributes(answerAttributes(end.Answer)...)
		fail(span, end.Category)
		span.End(trace.WithTimestamp(now))
	}
}

// record books a call that has ended.
func (c *calls) record(ctx context.Context, call activities.CallInfo, end activities.CallOutcome, attributes []attribute.KeyValue,
	took time.Duration,
) {
	timed := attributes
	if end.Category != "" {
		timed = append(attributes[:len(attributes):len(attributes)], semconv.ErrorTypeKey.String(string(end.Category)))
	}
	c.duration.Record(ctx, took.Seconds(), metric.WithAttributes(timed...))
	whose := metric.WithAttributes(teamKey.String(call.Team), agentKey.String(call.Agent))
	if end.Answer.Differs != "" {
		c.differing.Add(ctx, 1, metric.WithAttributes(agentKey.String(call.Agent)))
	}
	if end.Stored {
		c.stored.Add(ctx, 1, metric.WithAttributes(agentKey.String(call.Agent)))
	}
	u := end.Usage
	if u == (cost.Usage{}) {
		return
	}
	c.cost.Add(ctx, float64(u.CostUSD)/1e9, whose)
	for _, part := range []struct {
		kind   string
		tokens int64
	}{{"input", u.InputTokens}, {"output", u.OutputTokens}, {"cache_read", u.CacheReadTokens}, {"cache_write", u.CacheWriteTokens}} {
		c.tokens.Add(ctx, part.tokens, whose, metric.WithAttributes(typeKey.String(part.kind)))
	}
	for _, part := range []struct {
		kind   attribute.KeyValue
		tokens int64
	}{{semconv.GenAITokenTypeInput, u.Prompt()}, {semconv.GenAITokenTypeOutput, u.OutputTokens}} {
		c.usage.Record(ctx, part.tokens, metric.WithAttributes(attributes...), metric.WithAttributes(part.kind))
	}
}

// CallReplayed counts a stored answer that was used.
func (r *Recorder) CallReplayed(call activities.CallInfo) {
	r.calls.replayed.Add(context.Background(), 1, metric.WithAttributes(agentKey.String(call.Agent)))
}

func usageAttributes(u cost.Usage) []attribute.KeyValue {
	if u == (cost.Usage{}) {
		return nil
	}
	return []attribute.KeyValue{
		semconv.GenAIUsageInputTokensKey.Int64(u.Prompt()), semconv.GenAIUsageOutputTokensKey.Int64(u.OutputTokens),
		semconv.GenAIUsageCacheReadInputTokensKey.Int64(u.CacheReadTokens),
		semconv.GenAIUsageCacheCreationInputTokensKey.Int64(u.CacheWriteTokens),
		semconv.GenAIUsageReasoningOutputTokensKey.Int64(u.ReasoningTokens),
		attribute.Float64("maestro.cost_usd", float64(u.CostUSD)/1e9),
	}
}

func answerAttributes(a session.CallAnswer) (attributes []attribute.KeyValue) {
	if a.ID != "" {
		attributes = append(attributes, semconv.GenAIResponseID(a.ID))
	}
	if a.Model != "" {
		attributes = append(attributes, semconv.GenAIResponseModel(a.Model))
	}
	if a.Differs != "" {
		attributes = append(attributes, attribute.String("maestro.differs", a.Differs))
	}
	if a.Stop != "" {
		attributes = append(attributes, semconv.GenAIResponseFinishReasons(a.Stop))
	}
	return attributes
}

// otherNames are the conventions' names of providers that differ from those of their APIs.
var otherNames = map[string]string{"gemini": semconv.GenAIProviderNameGCPGemini.Value.AsString()}

// callAttributes are those of a call's metrics: as many as there are agents.
func callAttributes(call activities.CallInfo) []attribute.KeyValue {
	attributes := []attribute.KeyValue{semconv.GenAIAgentName(call.Agent)}
	if call.API != "" {
		attributes = append(attributes, semconv.GenAIOperationNameChat,
			semconv.GenAIProviderNameKey.String(cmp.Or(otherNames[call.API], call.API)))
	} else {
		attributes = append(attributes, semconv.GenAIOperationNameInvokeAgent)
	}
	if call.Model != "" {
		attributes = append(attributes, semconv.GenAIRequestModel(call.Model))
	}
	return attributes
}

// callName is the operation and what it is done with.
func callName(call activities.CallInfo) string {
	if call.API != "" {
		return semconv.GenAIOperationNameChat.Value.AsString() + " " + call.Model
	}
	return semconv.GenAIOperationNameInvokeAgent.Value.AsString() + " " + call.Agent
}

// fail marks a span with the category of a failure, if there is one.
func fail(span trace.Span, c failures.Category) {
	if c != "" {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(semconv.ErrorTypeKey.String(string(c)))
	}
}
