// Package breaker is the circuit breaker of an agent: a pure state machine, an entity workflow that
// keeps one machine's state for all sessions of a store, and a client that reads it and reports to
// it.
package breaker

import (
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// LeaseTime is how long a probe's lease is valid without a renewal.
const LeaseTime = time.Minute

// maxText limits the texts in a state, which has to fit into a memo, in bytes.
const maxText = 200

// State is the whole state of a breaker. The zero State is a closed breaker without any event.
type State struct {
	// Open: no round may start before OpenUntil, and then only probes.
	Open bool `json:"open"`
	// Failures counts the counted failures since the last success.
	Failures int `json:"failures"`
	// Generation counts the transitions. The outcome of a round that began in an earlier generation
	// is ignored.
	Generation int64 `json:"generation"`
	// Trips counts the openings since the breaker was last closed, including those by hand while it
	// was open. So Generation minus Trips is constant while the breaker is open.
	Trips int `json:"trips"`
	// OpenUntil is absolute, so a restart does not change it; zero for a closed breaker, and for
	// one that is open until it is reset.
	OpenUntil time.Time              `json:"open_until,omitzero"`
	Probes    []session.BreakerLease `json:"probes,omitempty"`
	// Forced records who opened the breaker by hand.
	Forced *session.BreakerForced `json:"forced,omitempty"`
	// Revision counts all changes, including those of leases.
	Revision  int64     `json:"revision"`
	ChangedAt time.Time `json:"changed_at,omitzero"`
	ChangedBy string    `json:"changed_by,omitempty"`
	Why       string    `json:"why,omitempty"`
	// LastFailure is the last failure that counted.
	LastFailure *session.AttemptFailure `json:"last_failure,omitempty"`
}

// HalfOpen reports whether the breaker is open and its cooldown is over.
func (s State) HalfOpen(now time.Time) bool {
	return s.Open && !s.OpenUntil.IsZero() && !now.Before(s.OpenUntil)
}

// At returns the breaker's state at a time.
func (s State) At(now time.Time) session.BreakerState {
	switch {
	case !s.Open:
		return session.BreakerClosed
	case s.HalfOpen(now):
		return session.BreakerHalfOpen
	}
	return session.BreakerIsOpen
}

// Event is an input of a breaker: a [session.BreakerReport], or an [AcquireRequest], [RenewRequest], [TripRequest] or
// [ResetRequest].
type Event any

// Effect is the result of an event.
type Effect string

// The effects.
const (
	// Applied: the event counted.
	Applied Effect = "applied"
	// Ignored: the outcome is from before the last transition, or of a round without a lease, or
	// neutral.
	Ignored Effect = "ignored"
	// Passed: the breaker is closed; no lease is needed.
	Passed Effect = "passed"
	// Leased: the holder has a lease for [LeaseTime] from now.
	Leased Effect = "leased"
	// Refused: the holder does not get a lease.
	Refused Effect = "refused"
)

// Apply is the transition function: the state after an event at a time. random, in [0, 1), spreads
// the cooldowns. The argument is not changed.
func Apply(s State, set spec.Breaker, e Event, now time.Time, random float64) (State, Effect) {
	m := machine{State: s, set: set.For(set.Name), now: now, random: random}
	m.Probes = slices.DeleteFunc(slices.Clone(s.Probes), func(l session.BreakerLease) bool { return !now.Before(l.Until) })
	var effect Effect
	switch e := e.(type) {
	case session.BreakerReport:
		effect = m.report(e)
	case AcquireRequest:
		effect = m.acquire(e.Holder)
	case RenewRequest:
		effect = m.renew(e.Holder)
	case TripRequest:
		effect = m.trip(e)
	case ResetRequest:
		m.close()
		m.ChangedBy, m.Why = short(e.By), short(e.Why)
		effect = Applied
	}
	if effect == Ignored || effect == Passed || effect == Refused {
		return s, effect
	}
	m.Revision++
	return m.State, effect
}

// machine is the application of one event.
type machine struct {
	State
	set    spec.Breaker
	now    time.Time
	random float64
}

func (m *machine) report(r session.BreakerReport) Effect {
	if r.Generation < m.Generation {
		return Ignored
	}
	if m.Open {
		return m.probed(r)
	}
	switch r.Outcome {
	case failures.CountsAsFailure:
		m.fail(r)
		if m.Failures >= m.set.Threshold {
			m.open(r)
		}
		return Applied
	case failures.CountsAsSuccess:
		if m.Failures == 0 {
			return Ignored
		}
		m.Failures = 0
		return Applied
	case failures.Neutral:
	}
	return Ignored
}

// probed applies the outcome of a probe: while the breaker is open, no other outcome counts.
func (m *machine) probed(r session.BreakerReport) Effect {
	i := m.lease(r.Holder)
	if i < 0 {
		return Ignored
	}
	switch r.Outcome {
	case failures.CountsAsFailure:
		m.fail(r)
		m.open(r)
	case failures.CountsAsSuccess:
		m.close()
	default:
		m.Probes = slices.Delete(m.Probes, i, i+1)
	}
	return Applied
}

func (m *machine) acquire(holder string) Effect {
	switch {
	case !m.Open:
		return Passed
	case m.lease(holder) >= 0:
		return m.renew(holder)
	case !m.HalfOpen(m.now) || len(m.Probes) >= m.set.Probes:
		return Refused
	}
	m.Probes = append(m.Probes, session.BreakerLease{Holder: holder, Until: m.now.Add(LeaseTime)})
	return Leased
}

func (m *machine) renew(holder string) Effect {
	i := m.lease(holder)
	if i < 0 {
		return Refused
	}
	m.Probes[i].Until = m.now.Add(LeaseTime)
	return Leased
}

func (m *machine) trip(t TripRequest) Effect {
	m.transition()
	m.Open, m.OpenUntil = true, time.Time{}
	m.Trips++
	m.ChangedBy, m.Why = short(t.By), short(t.Why)
	m.Forced = &session.BreakerForced{By: m.ChangedBy, Why: m.Why}
	if t.For > 0 {
		m.OpenUntil = m.now.Add(t.For.Std())
		m.Forced.Until = &m.OpenUntil
	}
	return Applied
}

func (m *machine) fail(r session.BreakerReport) {
	m.Failures++
	m.LastFailure = &session.AttemptFailure{Category: r.Category, Message: short(r.Message)}
}

// open opens the breaker for the cooldown, or for the wait that the provider states if that is longer.
func (m *machine) open(r session.BreakerReport) {
	m.transition()
	m.Trips++
	m.Open, m.OpenUntil = true, m.now.Add(max(m.cooldown(), r.RetryAfter.Std()))
}

func (m *machine) close() {
	m.transition()
	m.Open, m.OpenUntil, m.Failures, m.Trips = false, time.Time{}, 0, 0
}

// transition begins a new generation, in which outcomes of earlier ones are ignored.
func (m *machine) transition() {
	m.Generation++
	m.Probes, m.Forced, m.ChangedAt = nil, nil, m.now
	m.ChangedBy, m.Why = "", ""
}

// cooldown doubles with every trip and is spread by up to a tenth; it is never shorter than the
// settings' cooldown, and never longer than their maximum.
func (m *machine) cooldown() time.Duration {
	wait := spec.Backoff(m.set.Cooldown, m.set.MaxCooldown, m.Trips).Std()
	return min(wait+time.Duration(m.random*float64(wait)/10), m.set.MaxCooldown.Std())
}

func (m *machine) lease(holder string) int {
	return slices.IndexFunc(m.Probes, func(l session.BreakerLease) bool { return holder != "" && l.Holder == holder })
}

func short(text string) string { return textfmt.Shorten(text, maxText) }
