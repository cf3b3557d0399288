package telemetry

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/egress"
)

// ok is the value in place of a failure's category if there was no failure.
const ok failures.Category = "ok"

// The attributes of Maestro's own metrics.
const (
	teamKey      = attribute.Key("team")
	agentKey     = attribute.Key("agent")
	stateKey     = attribute.Key("state")
	categoryKey  = attribute.Key("category")
	typeKey      = attribute.Key("type")
	storeKey     = attribute.Key("store")
	breakerKey   = attribute.Key("breaker")
	scopeKey     = attribute.Key("scope")
	whomKey      = attribute.Key("whom")
	outcomeKey   = attribute.Key("outcome")
	directionKey = attribute.Key("direction")
)

// Recorder records the events of a worker. It is an [activities.Observer], and safe for concurrent
// use.
type Recorder struct {
	tracer trace.Tracer
	clock  func() time.Time
	calls  calls
	standing

	sessionsStarted, sessionsEnded, help, assignments metric.Int64Counter

	rounds, attempts, lost      metric.Int64Counter
	attemptTime                 metric.Float64Histogram
	storeWait                   metric.Float64Counter
	outside, differences        metric.Int64Counter
	egressRequests, egressBytes metric.Int64Counter

	slotsUsed                            metric.Int64UpDownCounter
	built, slotsLimit, reloaded, polling metric.Int64Gauge
	// served are the agents that this worker has had so far.
	served map[string]bool
}

var (
	_ activities.Observer = (*Recorder)(nil)
	_ egress.Observer     = (*Recorder)(nil)
)

// attemptBounds are the buckets of an attempt's duration, in seconds.
var attemptBounds = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 2400, 3600}

func newRecorder(m metric.Meter, t trace.Tracer, clock func() time.Time) (*Recorder, error) {
	r := &Recorder{tracer: t, clock: clock, served: map[string]bool{}}
	i := &instruments{meter: m}
	r.sessionsStarted = i.counter("maestro.sessions.started", "{session}", "Sessions and further runs that were admitted.")
	r.sessionsEnded = i.counter("maestro.sessions.ended", "{session}", "Sessions that ended, by state.")
	r.help = i.counter("maestro.help.requests", "{request}",
		"Assignments that are given up until a person helps, by the category of what they failed of.")
	r.assignments = i.counter("maestro.assignments.ended", "{assignment}", "Assignments whose work is done or given up, by state.")
	r.rounds = i.counter("maestro.rounds", "{round}", "Rounds that ended, by the category of what ended them; ok for a success.")
	r.attempts = i.counter("maestro.attempts", "{attempt}", "Counted attempts, by the category of their failure; ok for a success.")
	r.lost = i.counter("maestro.workers.lost", "{worker}", "Workers that were lost during a round.")
	r.outside = i.counter("maestro.outside.calls", "{call}", "Calls of Jira and of the webhook, by what they came to.")
	r.differences = i.counter("maestro.gateway.differences", "{attempt}",
		"Attempts through the gateway whose program counted other tokens than the provider.")
	r.egressRequests = i.counter("maestro.egress.requests", "{request}",
		"Requests and tunnels that rooms with a list of hosts have requested, by outcome: permitted, refused, failed.")
	r.egressBytes = i.counter("maestro.egress.bytes", "By", "Bytes that such rooms have received and sent, by direction.")
	r.attemptTime = i.histogram("maestro.attempt.duration", "How long counted attempts took.", attemptBounds)
	r.built = i.gauge("maestro.build.info", "", "1; which build of Maestro runs, in its attributes.")
	r.slotsLimit = i.gauge("maestro.agent.slots.limit", "{slot}", "Slots of an agent on this worker.")
	r.reloaded = i.gauge("maestro.worker_file.reload.success", "",
		"1 if the worker file could be loaded when it was last read, else 0.")
	r.polling = i.gauge("maestro.worker.polling", "", "1 while Temporal sees this worker poll, else 0.")
	var err error
	r.slotsUsed, err = m.Int64UpDownCounter("maestro.agent.slots.used", metric.WithUnit("{slot}"),
		metric.WithDescription("Slots of an agent in use on this worker."))
	i.failed = append(i.failed, err)
	r.storeWait, err = m.Float64Counter("maestro.store.wait", metric.WithUnit("s"),
		metric.WithDescription("Time that work has waited since the store could not be used."))
	i.failed = append(i.failed, err)
	r.calls.define(i)
	r.define(i, clock)
	return r, errors.Join(i.failed...)
}

// instruments defines instruments and gathers what is wrong with them.
type instruments struct {
	meter  metric.Meter
	failed []error
}

func (i *instruments) counter(name, unit, help string) metric.Int64Counter {
	c, err := i.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
	i.failed = append(i.failed, err)
	return c
}

func (i *instruments) gauge(name, unit, help string) metric.Int64Gauge {
	g, err := i.meter.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(help))
	i.failed = append(i.failed, err)
	return g
}

func (i *instruments) histogram(name, help string, bounds []float64) metric.Float64Histogram {
	h, err := i.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(help),
		metric.WithExplicitBucketBoundaries(bounds...))
	i.failed = append(i.failed, err)
	return h
}

// FileLoaded records whether the worker file could be loaded.
func (r *Recorder) FileLoaded(ok bool) { r.reloaded.Record(context.Background(), oneIf(ok)) }

// UsageDiffers counts an attempt whose program counted other tokens than the provider.
func (r *Recorder) UsageDiffers(agent string) {
	r.differences.Add(context.Background(), 1, metric.WithAttributes(agentKey.String(agent)))
}

// SlotTaken counts one of the agent's slots as in use until free is called.
func (r *Recorder) SlotTaken(agent string) (free func()) {
	add := func(n int64) {
		r.slotsUsed.Add(context.Background(), n, metric.WithAttributes(agentKey.String(agent)))
	}
	add(1)
	return func() { add(-1) }
}

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// Serves names the store and the agents of a worker, with the slots of each; an agent
// that it no longer has gets none. Every figure that an alert reads begins at zero here:
// otherwise the first event of its kind would not show as an increase.
func (r *Recorder) Serves(store string, slots map[string]int) {
	ctx := context.Background()
	for agent := range slots {
		r.lost.Add(ctx, 0, metric.WithAttributes(agentKey.String(agent)))
		for _, c := range append(failures.Categories(), ok) {
			by := metric.WithAttributes(agentKey.String(agent), categoryKey.String(string(c)))
			r.rounds.Add(ctx, 0, by)
			r.attempts.Add(ctx, 0, by)
		}
		r.calls.begin(ctx, agent)
	}
	r.mu.Lock()
	for agent := range slots {
		r.served[agent] = true
	}
	for agent := range r.served {
		by := metric.WithAttributes(agentKey.String(agent))
		r.slotsLimit.Record(ctx, int64(slots[agent]), by)
		r.slotsUsed.Add(ctx, 0, by)
	}
	r.mu.Unlock()
	for _, c := range failures.Categories() {
		r.help.Add(ctx, 0, metric.WithAttributes(categoryKey.String(string(c))))
	}
	r.storeWait.Add(ctx, 0)
	for _, o := range []egress.Outcome{egress.Permitted, egress.Refused, egress.Failed} {
		r.egressRequests.Add(ctx, 0, metric.WithAttributes(outcomeKey.String(string(o))))
	}
	for whom, outcomes := range activities.CallOutcomes() {
		for _, outcome := range outcomes {
			r.outside.Add(ctx, 0, metric.WithAttributes(whomKey.String(string(whom)), outcomeKey.String(outcome)))
		}
	}
	r.belongsTo(store)
}

// SessionStarted counts an admission.
func (r *Recorder) SessionStarted(name string) {
	r.sessionsStarted.Add(context.Background(), 1, metric.WithAttributes(teamKey.String(name)))
}

// SessionEnded counts an end.
func (r *Recorder) SessionEnded(name string, state session.State) {
	r.sessionsEnded.Add(context.Background(), 1, metric.WithAttributes(teamKey.String(name), stateKey.String(string(state))))
}

// HelpRequested counts an assignment that is given up until a person helps.
func (r *Recorder) HelpRequested(c failures.Category) {
	r.help.Add(context.Background(), 1, metric.WithAttributes(categoryKey.String(string(c))))
}

// AssignmentEnded counts an assignment.
func (r *Recorder) AssignmentEnded(name string, state session.State) {
	r.assignments.Add(context.Background(), 1, metric.WithAttributes(teamKey.String(name), stateKey.String(string(state))))
}

// RoundEnded counts a round.
func (r *Recorder) RoundEnded(agent string, c failures.Category) {
	r.rounds.Add(context.Background(), 1, metric.WithAttributes(agentKey.String(agent), categoryKey.String(string(cmp.Or(c, ok)))))
}

// WorkerLost counts a lost worker.
func (r *Recorder) WorkerLost(agent string) {
	r.lost.Add(context.Background(), 1, metric.WithAttributes(agentKey.String(agent)))
}

// StoreWaited counts a wait for the store.
func (r *Recorder) StoreWaited(d time.Duration) { r.storeWait.Add(context.Background(), d.Seconds()) }

// ExternalCalled counts a call of Jira, or of the webhook.
func (r *Recorder) ExternalCalled(whom activities.ExternalSystem, outcome string) {
	r.outside.Add(context.Background(), 1, metric.WithAttributes(whomKey.String(string(whom)), outcomeKey.String(outcome)))
}

// AttemptBegun opens an attempt's span, and counts the attempt when it ends.
func (r *Recorder) AttemptBegun(ctx context.Context, a activities.AttemptInfo) (context.Context,
	func(activities.AttemptOutcome),
) {
	began := r.clock()
	ctx, span := r.tracer.Start(ctx, "attempt "+a.String(), trace.WithTimestamp(began), trace.WithAttributes(
		attribute.String("maestro.team", a.Team), attribute.String("maestro.session", a.Session),
		attribute.String("maestro.phase", a.Phase), attribute.String("maestro.persona", a.Persona),
		attribute.String("maestro.agent", a.Agent), attribute.Int("maestro.round", a.Round),
		attribute.Int("maestro.attempt", a.Attempt),
	))
	return ctx, func(end activities.AttemptOutcome) {
		now := r.clock()
		if end.Interrupted {
			span.SetAttributes(attribute.Bool("maestro.interrupted", true))
		} else {
			r.attempts.Add(ctx, 1, metric.WithAttributes(agentKey.String(a.Agent), categoryKey.String(string(cmp.Or(end.Category, ok)))))
			r.attemptTime.Record(ctx, now.Sub(began).Seconds(), metric.WithAttributes(agentKey.String(a.Agent)))
		}
		fail(span, end.Category)
		span.End(trace.WithTimestamp(now))
	}
}

// EgressRequest counts a request of a room.
func (r *Recorder) EgressRequest(o egress.Outcome) {
	r.egressRequests.Add(context.Background(), 1, metric.WithAttributes(outcomeKey.String(string(o))))
}

// EgressBytes counts the bytes of a room.
func (r *Recorder) EgressBytes(received, sent int64) {
	r.egressBytes.Add(context.Background(), received, metric.WithAttributes(directionKey.String("received")))
	r.egressBytes.Add(context.Background(), sent, metric.WithAttributes(directionKey.String("sent")))
}
