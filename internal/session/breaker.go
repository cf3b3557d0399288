package session

import (
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// BreakerPermit is how a breaker let a round through. It is fixed when the round
// begins, so that its outcome is weighed against that moment.
type BreakerPermit struct {
	// Generation is the breaker's when the round began.
	Generation int64 `json:"generation"`
	// Holder names the lease that a probe holds; empty for an ordinary round.
	Holder string `json:"holder,omitempty"`
}

// CallBreaker is the circuit breaker of an attempt's calls. It is safe for concurrent use.
type CallBreaker interface {
	// Open returns for how long calls are refused; zero: one may be made.
	Open() time.Duration
	// Report takes the outcome of a call; nil: the provider has answered.
	Report(f *failures.Failure)
}

// GiveBack is the report of a probe's lease under which nothing was tried.
func (p BreakerPermit) GiveBack(b spec.Breaker, now time.Time) BreakerReport {
	return BreakerReport{ID: fmt.Sprintf("%s/back/%d", p.Holder, now.UnixNano()), Breaker: b, BreakerPermit: p, Outcome: failures.Neutral}
}

// BreakerReport is the outcome of a round on its way to the agent's breaker.
type BreakerReport struct {
	// ID makes the report count once however often it is sent.
	ID      string          `json:"id"`
	Breaker spec.Breaker    `json:"breaker"`
	Outcome failures.Weight `json:"outcome"`
	BreakerPermit
	// Category and Message say how the round failed.
	Category failures.Category `json:"category,omitempty"`
	Message  string            `json:"message,omitempty"`
}

// BreakerState is where a breaker stands.
type BreakerState string

// The states of a breaker. Half-open is never stored: it is an open breaker
// whose cooldown is over.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerIsOpen   BreakerState = "open"
	BreakerHalfOpen BreakerState = "half_open"
)

// BreakerStatus is what is known of a breaker: the document of
// `breaker show -o json` and of breakers/<name>.json. Its field names are stable.
type BreakerStatus struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	// State is closed or open in the store's file, and derived by At elsewhere.
	State BreakerState `json:"state"`
	// Failures counts the counted failures in a row.
	Failures int `json:"failures"`
	// Generation counts the changes between closed and open.
	Generation int64 `json:"generation"`
	// Trips counts the openings in a row, without a closing between.
	Trips int `json:"trips"`
	// OpenUntil is when the cooldown is over; nil for a closed breaker, and for
	// one that stays open until it is reset.
	OpenUntil *time.Time `json:"open_until"`
	// Probes are the leases of the rounds that try the agent.
	Probes []BreakerLease `json:"probes"`
	// Forced says who opened it by hand; nil: nobody.
	Forced *BreakerForced `json:"forced"`
	// LastFailure is the last that counted.
	LastFailure *AttemptFailure `json:"last_failure"`
	// Revision grows with every change. Since is when the breaker was made; one
	// that was made later replaces an earlier one whatever its revision.
	Revision  int64     `json:"revision"`
	Since     time.Time `json:"since"`
	ChangedAt time.Time `json:"changed_at"`
	// ChangedBy and Why tell of the last change by hand.
	ChangedBy string `json:"changed_by,omitempty"`
	Why       string `json:"why,omitempty"`
	// Settings are those of the last worker that reported.
	Settings spec.Breaker `json:"settings"`
}

// BreakerLease is a probe: one round that tries an agent for all others.
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

// At returns the status as it is at a moment: half-open once the cooldown is
// over, without the leases that have run out.
func (s BreakerStatus) At(now time.Time) BreakerStatus {
	if s.State == BreakerIsOpen && s.OpenUntil != nil && !now.Before(*s.OpenUntil) {
		s.State = BreakerHalfOpen
	}
	live := []BreakerLease{}
	for _, lease := range s.Probes {
		if now.Before(lease.Until) {
			live = append(live, lease)
		}
	}
	s.Probes = live
	return s
}

// NewerThan reports whether s is to replace other.
func (s BreakerStatus) NewerThan(other BreakerStatus) bool {
	if !s.Since.Equal(other.Since) {
		return s.Since.After(other.Since)
	}
	return s.Revision > other.Revision
}

// Because says in half a sentence why the breaker is open.
func (s BreakerStatus) Because() string {
	switch {
	case s.State == BreakerClosed:
		return "closed"
	case s.Forced != nil:
		return fmt.Sprintf("opened manually by %s: %s", orSomebody(s.Forced.By), s.Forced.Why)
	case s.LastFailure != nil:
		return fmt.Sprintf("%d consecutive failures, last: %s: %s", s.Failures, s.LastFailure.Category, s.LastFailure.Message)
	}
	return fmt.Sprintf("%d consecutive failures", s.Failures)
}

func orSomebody(name string) string {
	if name == "" {
		return "an unnamed person"
	}
	return name
}

// BreakerWait is why an assignment waits for its agent's breaker.
type BreakerWait struct {
	// Breaker is its name.
	Breaker string `json:"breaker"`
	// Since is when the wait began.
	Since time.Time `json:"since"`
	// Until is when the cooldown is over; nil: not before somebody resets it.
	Until *time.Time `json:"until"`
	// Why says why it is open.
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
