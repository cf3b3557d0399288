package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// The first and the longest wait for a provider that does not announce when it is available again,
// and the longest announced wait that is accepted.
const (
	outageInitial = textfmt.Duration(time.Second)
	outageMax     = textfmt.Duration(time.Minute)
	MaxRetryAfter = textfmt.Duration(8 * 24 * time.Hour)
)

// Outage is a failure of a provider, or of the host, that an attempt waits out. It begins with the
// first failure and ends with the next progress: a stored answer, a turn that a program has
// reported, or the end of the attempt.
type Outage struct {
	// Agent is the agent that the failure occurred to.
	Agent string `json:"agent"`
	// Since is when it began, Tries how often the attempt has waited since.
	Since time.Time `json:"since"`
	Tries int       `json:"waits"`
	// Failure is the last one.
	Failure failures.Failure `json:"failure"`
	// Until is when the attempt continues, at the earliest.
	Until time.Time `json:"until"`
	// PatienceFrom is when the team's patience begins: with the outage, or at the time for which
	// the provider has announced to be available again.
	PatienceFrom time.Time `json:"patience_from"`
	// Signalled is the last reason that was reported to the session, SignalledAt the time; empty: none was.
	Signalled   failures.Category `json:"signalled,omitempty"`
	SignalledAt time.Time         `json:"signalled_at,omitzero"`
	// Noticed: people have been notified, and the attempt waits for as long as the session does.
	Noticed bool `json:"noticed,omitempty"`
	// FilesInPlace: the directory is unchanged since the attempt stopped. Files is its manifest, if that is
	// known.
	FilesInPlace bool        `json:"files_in_place,omitempty"`
	Files        spec.Digest `json:"files,omitempty"`
}

// After is the outage after a further failure. After a nil outage, or one of another agent, it is
// the first. patience is the team's. random, in [0, 1), spreads the waits.
//
// A wait that the provider states replaces the usual one if it is longer. Patience then begins at its end, up to
// [MaxRetryAfter] after the outage began. Of several waits shorter than the patience only the first moves its start.
func (o *Outage) After(f failures.Failure, agent string, now time.Time, patience textfmt.Duration, random float64) Outage {
	next := Outage{Agent: agent, Since: now, PatienceFrom: now}
	stated := false
	if o != nil && o.Agent == agent && o.Pending() == (f.Category == failures.Pending) {
		next, stated = *o, o.PatienceFrom.After(o.Since)
	}
	next.Tries++
	next.Failure = f
	wait := spec.Backoff(outageInitial, outageMax, next.Tries).Std()
	wait = wait/2 + time.Duration(random*float64(wait/2))
	if f.Category == failures.Pending { // whoever looks says when to look again
		next.Until = now.Add(f.RetryAfter.Std())
		return next
	}
	if f.RetryAfter > 0 {
		wait = max(wait, f.RetryAfter.Std())
		if back := now.Add(f.RetryAfter.Std()); back.After(next.PatienceFrom) && (!stated || f.RetryAfter >= patience) &&
			back.Sub(next.Since) <= MaxRetryAfter.Std() {
			next.PatienceFrom = back
		}
	}
	next.Until = now.Add(wait)
	return next
}

// Pending reports whether the attempt waits for others, which is no outage: nobody's patience ends.
func (o Outage) Pending() bool { return o.Failure.Category == failures.Pending }

// PatienceUntil is when the team's patience is over.
func (o Outage) PatienceUntil(patience textfmt.Duration) time.Time {
	return o.PatienceFrom.Add(patience.Std())
}

// nextLook begins the time of the next look at what others have done.
const nextLook = "; the next look is at "

// WithoutNextLook returns the progress of an assignment without the time of the next look, which changes while nothing happens.
func WithoutNextLook(progress string) string {
	text, _, _ := strings.Cut(progress, nextLook)
	return text
}

// String is a sentence on the wait.
func (o Outage) String() string {
	if o.Pending() {
		return fmt.Sprintf("%s%s%s UTC", o.Failure.Message, nextLook, o.Until.UTC().Format(time.DateTime))
	}
	return fmt.Sprintf("waiting until %s UTC for the %s, which has failed since %s UTC (%s: %s); no attempt is counted",
		o.Until.UTC().Format(time.DateTime), o.Failure.Category.Awaited(), o.Since.UTC().Format(time.DateTime), o.Failure.Category,
		o.Failure.Message)
}
