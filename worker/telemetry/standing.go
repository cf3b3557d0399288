package telemetry

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// How long a budget's fraction is shown.
const (
	// peakFor is how long the highest fraction is shown before a lower one replaces it: sessions of
	// one team report in turn.
	peakFor = time.Minute
	// forgetAfter is how long a fraction is shown after its last report.
	forgetAfter = 15 * time.Minute
)

// standing is the current state of breakers, budgets and the fleet, for gauges.
type standing struct {
	mu       sync.Mutex
	store    string
	breakers map[string]session.BreakerStatus
	budgets  map[budget]fraction
	workers  map[string]int
	sessions map[session.State]int64
}

type budget struct{ team, scope string }

type fraction struct {
	value     float64
	since, at time.Time
}

// Fleet is the state of the store's sessions and workers.
type Fleet struct {
	// Breakers names the breakers of the worker's agents. Others are not shown: it would not
	// learn of their changes.
	Breakers map[string]bool
	// Sessions counts those that are open, by state; nil: it is not known.
	Sessions map[session.State]int64
	// Workers counts, for each agent of the store, the live workers that offer it.
	Workers map[string]int
	// Polls reports whether this worker is a poller in Temporal.
	Polls bool
}

// belongsTo names the worker's store.
func (s *standing) belongsTo(store string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = store
}

// Breaker records the state of a breaker.
func (s *standing) Breaker(b session.BreakerStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.breakers[b.Name]; known.Since.Equal(b.Since) && known.Revision > b.Revision {
		return // two reads of it were in the wrong order
	}
	s.breakers[b.Name] = b
}

// Look records the state of the fleet.
func (r *Recorder) Look(f Fleet) {
	r.polling.Record(context.Background(), oneIf(f.Polls))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers, r.sessions = f.Workers, f.Sessions
	maps.DeleteFunc(r.breakers, func(name string, _ session.BreakerStatus) bool { return !f.Breakers[name] })
}

// BudgetFraction records a budget's fraction. Of a team's sessions, the one with the highest
// fraction within the last minute is shown.
func (r *Recorder) BudgetFraction(name, scope string, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, b := r.clock(), budget{name, scope}
	known := r.budgets[b]
	if value >= known.value || now.Sub(known.since) >= peakFor {
		known.value, known.since = value, now
	}
	known.at = now
	r.budgets[b] = known
}

// define makes the gauges of the current state.
func (s *standing) define(i *instruments, clock func() time.Time) {
	s.breakers, s.budgets = map[string]session.BreakerStatus{}, map[budget]fraction{}
	gauge := func(name, unit, help string, look func(now time.Time, show func(float64, ...attribute.KeyValue))) {
		_, err := i.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help),
			metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				look(clock(), func(v float64, by ...attribute.KeyValue) { o.Observe(v, metric.WithAttributes(by...)) })
				return nil
			}))
		i.failed = append(i.failed, err)
	}
	gauge("maestro.breaker.state", "", "The state of a breaker: 0 closed, 1 half-open, 2 open.", s.showBreakers)
	gauge("maestro.budget.fraction", "1", "The part of a budget that is spent, of the session that is furthest.", s.showBudgets)
	gauge("maestro.agent.workers", "{worker}", "Live workers of the store that offer an agent.", s.showWorkers)
	gauge("maestro.sessions.open", "{session}", "Sessions of the store that are open, by state.", s.showSessions)
	_, err := i.meter.Int64ObservableCounter("maestro.breaker.transitions", metric.WithUnit("{transition}"),
		metric.WithDescription("Transitions of a breaker since it was first needed, whatever caused them."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			for name, b := range s.breakers {
				o.Observe(b.Generation, metric.WithAttributes(storeKey.String(s.store), breakerKey.String(name)))
			}
			return nil
		}))
	i.failed = append(i.failed, err)
}

// show reports one figure.
type show = func(float64, ...attribute.KeyValue)

func (s *standing) showBreakers(now time.Time, show show) {
	figures := map[session.BreakerState]float64{session.BreakerClosed: 0, session.BreakerHalfOpen: 1, session.BreakerIsOpen: 2}
	for name, b := range s.breakers {
		show(figures[b.At(now).State], storeKey.String(s.store), breakerKey.String(name))
	}
}

func (s *standing) showBudgets(now time.Time, show show) {
	for b, f := range s.budgets {
		if now.Sub(f.at) >= forgetAfter {
			delete(s.budgets, b)
			continue
		}
		show(f.value, teamKey.String(b.team), scopeKey.String(b.scope))
	}
}

func (s *standing) showWorkers(_ time.Time, show show) {
	for agent, n := range s.workers {
		show(float64(n), storeKey.String(s.store), agentKey.String(agent))
	}
}

func (s *standing) showSessions(_ time.Time, show show) {
	for state, n := range s.sessions {
		show(float64(n), storeKey.String(s.store), stateKey.String(string(state)))
	}
}
