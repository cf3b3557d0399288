package session

import (
	"errors"
)

// The errors of a store, besides plain input/output errors. Those mean that its directory cannot be
// used at the moment and may be usable again later.
var (
	// ErrNotFound: the store has no such document or blob.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt: the content differs from what was written. A damaged blob has been moved to
	// the directory damaged.
	ErrCorrupt = errors.New("corrupt")
	// ErrFenced: a later run or activity of the session owns the assignment now.
	ErrFenced = errors.New("a later run or activity of the session owns this assignment")
)

// The type names of errors that cross Temporal. They are part of the wire
// format.
const (
	// RecoverableError ends an attempt; the round continues with the next.
	RecoverableError = "RecoverableError"
	// UnrecoverableError ends a round: its attempts are used up, or another one is useless.
	UnrecoverableError = "UnrecoverableError"
	// BreakerOpen ends a round before it began: the breaker of its agent is open. It counts neither
	// as a round nor as an attempt.
	BreakerOpen = "BreakerOpen"
	// BudgetSpent ends a round that can continue after a raise of its budget, or with another
	// agent. It does not count as a failure; the round's finished steps are kept.
	BudgetSpent = "BudgetSpent"
	// HelpNeeded ends a session whose rounds are used up.
	HelpNeeded = "HelpNeeded"
	// NotAdmitted ends a session that may not start.
	NotAdmitted = "NotAdmitted"
	// ProviderOutage ends an activity whose provider has been unavailable for longer than the
	// team's patience; a later activity continues its round.
	ProviderOutage = "ProviderOutage"
	// HandedOver ends an execution whose worker stops; another one continues, and no attempt is
	// used up.
	HandedOver = "HandedOver"
	// StoreUnusable ends an execution whose store cannot be read or written now; it is retried, and
	// no attempt is used up.
	StoreUnusable = "StoreUnusable"
)
