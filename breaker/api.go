package breaker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// WorkflowName is the wire name of [Workflow].
const WorkflowName = "circuit-breaker"

// WorkflowID is the id of a store's breaker: one workflow for all sessions of the store.
func WorkflowID(store, name string) string { return idPrefix(store) + name }

func idPrefix(store string) string { return "breaker/" + store + "/" }

// NameOf is the breaker of a workflow id; false for the id of another store's.
func NameOf(store, id string) (string, bool) { return strings.CutPrefix(id, idPrefix(store)) }

// StateQuery is the query that returns a [View].
const StateQuery = "state"

// MemoKey is the key of a breaker's [View] in its memo.
const MemoKey = "breaker"

// UpdateName is the wire name of an update.
type UpdateName string

// The updates of a breaker. Each returns an [Answer].
const (
	// ReportUpdate takes a [session.BreakerReport].
	ReportUpdate UpdateName = "report"
	// AcquireUpdate takes an [AcquireRequest].
	AcquireUpdate UpdateName = "acquire"
	// RenewUpdate takes a [RenewRequest].
	RenewUpdate UpdateName = "renew"
	// TripUpdate takes a [TripRequest].
	TripUpdate UpdateName = "trip"
	// ResetUpdate takes a [ResetRequest].
	ResetUpdate UpdateName = "reset"
)

// AcquireRequest requests a lease.
type AcquireRequest struct {
	Holder  string       `json:"holder"`
	Breaker spec.Breaker `json:"breaker"`
}

// RenewRequest extends a lease.
type RenewRequest struct {
	Holder string `json:"holder"`
}

// TripRequest opens a breaker by hand.
type TripRequest struct {
	By  string `json:"by"`
	Why string `json:"why"`
	// For is for how long; zero: until it is reset.
	For textfmt.Duration `json:"for,omitempty"`
}

// ResetRequest closes a breaker by hand.
type ResetRequest struct {
	By  string `json:"by"`
	Why string `json:"why,omitempty"`
}

// View is the state of a breaker in its memo.
type View struct {
	Name string `json:"name"`
	// Since is when its workflow was first started.
	Since time.Time `json:"since"`
	// Settings are those of the last worker that reported.
	Settings spec.Breaker `json:"settings"`
	State    State        `json:"state"`
}

// Answer is the effect of an update, and the breaker after it.
type Answer struct {
	Effect Effect `json:"effect"`
	View
}

// Status is the view in the form for people and files.
func (v View) Status() session.BreakerStatus {
	s := v.State
	status := session.BreakerStatus{
		Name: v.Name, State: session.BreakerClosed, Failures: s.Failures, Generation: s.Generation,
		Trips: s.Trips, Probes: append([]session.BreakerLease{}, s.Probes...), Forced: s.Forced, LastFailure: s.LastFailure,
		Revision: s.Revision, Since: v.Since, ChangedAt: s.ChangedAt, ChangedBy: s.ChangedBy, Why: s.Why, Settings: v.Settings,
	}
	if s.Open {
		status.State = session.BreakerIsOpen
	}
	if !s.OpenUntil.IsZero() {
		status.OpenUntil = &s.OpenUntil
	}
	return status
}

func checkReport(name string, r session.BreakerReport) error {
	switch {
	case r.Breaker.Name != name:
		return fmt.Errorf("the report is for breaker %q; this is %q", r.Breaker.Name, name)
	case r.ID == "":
		return errors.New("the report has no id")
	case r.Generation < 0:
		return fmt.Errorf("generation %d is negative", r.Generation)
	}
	switch r.Outcome {
	case failures.CountsAsFailure, failures.CountsAsSuccess, failures.Neutral:
		return checkSettings(r.Breaker)
	}
	return fmt.Errorf("outcome %q is none of %s, %s and %s", r.Outcome, failures.CountsAsFailure, failures.CountsAsSuccess,
		failures.Neutral)
}

func checkAcquire(name string, r AcquireRequest) error {
	switch {
	case r.Breaker.Name != name:
		return fmt.Errorf("the request is for breaker %q; this is %q", r.Breaker.Name, name)
	case r.Holder == "":
		return errors.New("the request has no holder")
	}
	return checkSettings(r.Breaker)
}

func checkSettings(b spec.Breaker) error {
	if b.Threshold < 1 || b.Probes < 1 || b.Cooldown <= 0 || b.MaxCooldown < b.Cooldown {
		return fmt.Errorf("threshold %d, cooldown %s, max_cooldown %s, probes %d: all must be positive, and max_cooldown not "+
			"below cooldown",
			b.Threshold, b.Cooldown, b.MaxCooldown, b.Probes)
	}
	return nil
}

func checkRenew(r RenewRequest) error {
	if r.Holder == "" {
		return errors.New("the request has no holder")
	}
	return nil
}

func checkTrip(r TripRequest) error {
	switch {
	case strings.TrimSpace(r.Why) == "":
		return errors.New(`missing why; give the reason, as in {"by":"ann","why":"maintenance until noon","for":"2h"}`)
	case r.For < 0:
		return fmt.Errorf("for: %s is negative; omit it to keep the breaker open until it is reset", r.For)
	}
	return nil
}
