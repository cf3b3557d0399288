package session

import (
	"errors"
)

// What the store answers besides plain input/output errors, which mean that its
// directory cannot be used at the moment and may be usable again later.
var (
	// ErrNotFound: the store has no such document or blob.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt: what the store has is not what was written. It has been
	// moved to the store's quarantine.
	ErrCorrupt = errors.New("corrupt")
	// ErrFenced: a later incarnation or activity of the session owns the assignment now.
	ErrFenced = errors.New("a later incarnation or activity of the session owns this assignment")
)

// The type names of errors that cross Temporal. They are part of the wire
// format.
const (
	// RecoverableError ends an attempt; the round continues with the next.
	RecoverableError = "RecoverableError"
	// UnrecoverableError ends a round: its attempts are spent, or useless.
	UnrecoverableError = "UnrecoverableError"
	// BreakerOpen ends a round before it began: the breaker of its agent is
	// open. It counts neither as a round nor as an attempt.
	BreakerOpen = "BreakerOpen"
	// BudgetSpent ends a round that may continue once its budget is raised, or with
	// another agent. It counts as no failure; what the round has done stays.
	BudgetSpent = "BudgetSpent"
	// HelpNeeded ends a session whose rounds are spent.
	HelpNeeded = "HelpNeeded"
	// NotAdmitted ends a session that may not start.
	NotAdmitted = "NotAdmitted"
	// ProviderOutage ends an activity whose provider has been away for longer than the
	// team's patience; a later one continues with its round.
	ProviderOutage = "ProviderOutage"
	// HandedOver ends an execution whose worker stops; another takes over and
	// no attempt is used.
	HandedOver = "HandedOver"
	// StoreUnusable ends an execution whose store cannot be read or written
	// now; it is tried again and no attempt is used.
	StoreUnusable = "StoreUnusable"
	// StoreMismatch refuses work for another store.
	StoreMismatch = "StoreMismatch"
)
