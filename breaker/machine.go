// Package breaker is the circuit breaker of an agent, or of a provider that several agents share. Start reading in machine.go,
// which is pure: a state, an event and a time give the next state. breakers.go keeps one state for all sessions of an
// installation, as a row of its database. The defaults of the settings are in internal/core/spec/breaker.go.
//
//	machine.go   when a breaker opens and closes, how the cooldown grows with each trip, how many rounds may probe, and how
//	             long the lease of a probe lasts
//	breakers.go  how an event changes the row, once for each id, and which outcomes write nothing
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

// maxText limits the texts in a state, in bytes.
const maxText = 200

// Event is an input of a breaker: a [session.BreakerReport], or an [AcquireRequest], [RenewRequest], [TripRequest] or
// [ResetRequest].
type Event any

// AcquireRequest requests a lease, with the settings of the agent's worker.
type AcquireRequest struct {
	Holder  string
	Breaker spec.Breaker
}

// RenewRequest extends a lease.
type RenewRequest struct{ Holder string }

// TripRequest opens a breaker by hand.
type TripRequest struct {
	By, Why string
	// For is for how long; zero: until it is reset.
	For textfmt.Duration
}

// ResetRequest closes a breaker by hand.
type ResetRequest struct{ By, Why string }

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

// Apply is the transition function: the stored state after an event at a time. The settings are those of the last event that
// has some. random, in [0, 1), spreads the cooldowns. The argument is not changed.
func Apply(s session.BreakerStatus, e Event, now time.Time, random float64) (session.BreakerStatus, Effect) {
	m := machine{BreakerStatus: s, now: now, random: random}
	m.Probes = slices.DeleteFunc(append([]session.BreakerLease{}, s.Probes...), func(l session.BreakerLease) bool {
		return !now.Before(l.Until)
	})
	var effect Effect
	switch e := e.(type) {
	case session.BreakerReport:
		m.Settings = e.Breaker.For(s.Name)
		effect = m.report(e)
	case AcquireRequest:
		m.Settings = e.Breaker.For(s.Name)
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
	return m.BreakerStatus, effect
}

// machine is the application of one event.
type machine struct {
	session.BreakerStatus
	now    time.Time
	random float64
}

func (m *machine) isOpen() bool { return m.State == session.BreakerIsOpen }

func (m *machine) report(r session.BreakerReport) Effect {
	if r.Generation < m.Generation {
		return Ignored
	}
	if m.isOpen() {
		return m.probed(r)
	}
	switch r.Outcome {
	case failures.CountsAsFailure:
		m.fail(r)
		if m.Failures >= m.Settings.Threshold {
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
	case !m.isOpen():
		return Passed
	case m.lease(holder) >= 0:
		return m.renew(holder)
	case m.At(m.now).State != session.BreakerHalfOpen || len(m.Probes) >= m.Settings.Probes:
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
	m.State, m.OpenUntil = session.BreakerIsOpen, nil
	m.Trips++
	m.ChangedBy, m.Why = short(t.By), short(t.Why)
	m.Forced = &session.BreakerForced{By: m.ChangedBy, Why: m.Why}
	if t.For > 0 {
		m.OpenUntil = new(m.now.Add(t.For.Std()))
		m.Forced.Until = m.OpenUntil
	}
	return Applied
}

func (m *machine) fail(r session.BreakerReport) {
	m.Failures++
	m.LastFailure = &session.AttemptFailure{Category: r.Category, Message: short(r.Message)}
}

// open opens the breaker for the cooldown.
func (m *machine) open(r session.BreakerReport) {
	m.transition()
	m.Trips++
	m.State, m.OpenUntil = session.BreakerIsOpen, new(m.now.Add(m.cooldown(r.RetryAfter.Std())))
}

func (m *machine) close() {
	m.transition()
	m.State, m.OpenUntil, m.Failures, m.Trips = session.BreakerClosed, nil, 0, 0
}

// transition begins a new generation, in which outcomes of earlier ones are ignored.
func (m *machine) transition() {
	m.Generation++
	m.Probes, m.Forced, m.ChangedAt = []session.BreakerLease{}, nil, m.now
	m.ChangedBy, m.Why = "", ""
}

// cooldown doubles with every trip and is spread by up to a tenth, up to the settings' maximum. A wait that the provider states
// wins if it is longer, also than the maximum.
func (m *machine) cooldown(stated time.Duration) time.Duration {
	wait := spec.Backoff(m.Settings.Cooldown, m.Settings.MaxCooldown, m.Trips).Std()
	return max(min(wait+time.Duration(m.random*float64(wait)/10), m.Settings.MaxCooldown.Std()), stated)
}

func (m *machine) lease(holder string) int {
	return slices.IndexFunc(m.Probes, func(l session.BreakerLease) bool { return holder != "" && l.Holder == holder })
}

func short(text string) string { return textfmt.Shorten(text, maxText) }
