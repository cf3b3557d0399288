package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// BreakerPermit is the permission of a breaker for a round. It is fixed when the round begins, so
// that the breaker compares the outcome with its state at that time.
type BreakerPermit struct {
	// Generation is the breaker's when the round began.
	Generation int64 `json:"generation"`
	// Holder names the lease that a probe holds; empty for an ordinary round.
	Holder string `json:"holder,omitempty"`
}

// CallBreaker is the circuit breaker of an attempt's calls. It is safe for concurrent use.
type CallBreaker interface {
	// RetryAfter returns for how long calls are refused; zero: one may be made.
	RetryAfter() time.Duration
	// Report takes the outcome of a call; nil: the provider has answered.
	Report(f *failures.Failure)
}

// GiveBack is the report that returns a probe's lease without an attempt.
func (p BreakerPermit) GiveBack(b spec.Breaker, now time.Time) BreakerReport {
	return BreakerReport{
		ID: fmt.Sprintf("%s/back/%d", p.Holder, now.UnixNano()), Breaker: b, BreakerPermit: p,
		Outcome: failures.Neutral,
	}
}

// BreakerReport is the outcome of a round, for the agent's breaker.
type BreakerReport struct {
	// ID makes the report count once, however often it is sent.
	ID      string          `json:"id"`
	Breaker spec.Breaker    `json:"breaker"`
	Outcome failures.Weight `json:"outcome"`
	BreakerPermit
	// Category and Message describe how the round failed.
	Category failures.Category `json:"category,omitempty"`
	Message  string            `json:"message,omitempty"`
	// RetryAfter is the wait that the provider states; zero: none.
	RetryAfter textfmt.Duration `json:"retry_after,omitempty"`
}

// BreakerState is the state of a breaker.
type BreakerState string

// The states of a breaker. Half-open is never stored: it is an open breaker
// whose cooldown is over.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerIsOpen   BreakerState = "open"
	BreakerHalfOpen BreakerState = "half_open"
)

// BreakerStatus is the status of a breaker: the document of `breaker show -o json`. Its field names are stable.
type BreakerStatus struct {
	Name string `json:"name"`
	// State is closed or open in the database; elsewhere At computes it.
	State BreakerState `json:"state"`
	// Failures counts the counted failures in a row.
	Failures int `json:"failures"`
	// Generation counts the changes between closed and open.
	Generation int64 `json:"generation"`
	// Trips counts the consecutive openings, without a closing between them.
	Trips int `json:"trips"`
	// OpenUntil is when the cooldown is over; nil for a closed breaker, and for
	// one that stays open until it is reset.
	OpenUntil *time.Time `json:"open_until"`
	// Probes are the leases of the rounds that test the agent.
	Probes []BreakerLease `json:"probes"`
	// Forced records who opened it by hand; nil: it was not opened by hand.
	Forced *BreakerForced `json:"forced"`
	// LastFailure is the last failure that counted.
	LastFailure *AttemptFailure `json:"last_failure"`
	// Revision grows with every change. Since is when the breaker counted something for the first time.
	Revision  int64     `json:"revision"`
	Since     time.Time `json:"since"`
	ChangedAt time.Time `json:"changed_at"`
	// ChangedBy and Why describe the last change by hand.
	ChangedBy string `json:"changed_by,omitempty"`
	Why       string `json:"why,omitempty"`
	// Settings are those of the last worker that reported.
	Settings spec.Breaker `json:"settings"`
}

// BreakerLease is the lease of a probe: one round that tests the agent for all others.
type BreakerLease struct {
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
}

// BreakerForced is an opening by hand.
type BreakerForced struct {
	By  string `json:"by"`
	Why string `json:"why"`
	// Until is when probes are let through again; nil: not before a reset.
	Until *time.Time `json:"until"`
}

// NewBreaker is a breaker that has counted nothing.
func NewBreaker(name string) BreakerStatus {
	return BreakerStatus{Name: name, State: BreakerClosed, Probes: []BreakerLease{}, Settings: spec.Breaker{}.For(name)}
}

// At returns the status at a time: half-open after the cooldown, without expired leases.
func (s BreakerStatus) At(now time.Time) BreakerStatus {
	if s.State == BreakerIsOpen && s.OpenUntil != nil && !now.Before(*s.OpenUntil) {
		s.State = BreakerHalfOpen
	}
	s.Probes = slices.DeleteFunc(append([]BreakerLease{}, s.Probes...), func(l BreakerLease) bool { return !now.Before(l.Until) })
	return s
}

// Because is the reason why the breaker is open, as part of a sentence.
func (s BreakerStatus) Because() string {
	switch {
	case s.State == BreakerClosed:
		return "closed"
	case s.Forced != nil:
		return fmt.Sprintf("opened manually by %s: %s", cmp.Or(s.Forced.By, "an unnamed person"), s.Forced.Why)
	case s.LastFailure != nil:
		return fmt.Sprintf("%d consecutive failures, last: %s: %s", s.Failures, s.LastFailure.Category, s.LastFailure.Message)
	}
	return fmt.Sprintf("%d consecutive failures", s.Failures)
}

// BreakerWait is why an assignment waits for its agent's breaker.
type BreakerWait struct {
	// Breaker is its name.
	Breaker string `json:"breaker"`
	// Since is when the wait began.
	Since time.Time `json:"since"`
	// Until is when the cooldown is over; nil: the breaker is open until it is reset.
	Until *time.Time `json:"until"`
	// Why is the reason why it is open.
	Why string `json:"why"`
}

// WaitFor is the wait for a breaker that is not closed.
func (s BreakerStatus) WaitFor(since time.Time) BreakerWait {
	return BreakerWait{Breaker: s.Name, Since: since, Until: s.OpenUntil, Why: textfmt.Shorten(s.Because(), MaxMessage)}
}

// String is a sentence on the wait, with what to do.
func (w BreakerWait) String() string {
	until := "until it is reset"
	if w.Until != nil {
		until = "at least until " + w.Until.UTC().Format(time.DateTime) + " UTC"
	}
	return fmt.Sprintf("waiting since %s UTC for breaker %s, which is open %s (%s); see `maestro breaker show %s`",
		w.Since.UTC().Format(time.DateTime), w.Breaker, until, w.Why, w.Breaker)
}
