// Package budget has the arithmetic of spending. A [Journal] has every paid call of an assignment.
// A [Ledger] is the sum of a session's journals, with the reservations for calls in progress, and
// enforces the session's limits on both. It is pure: the caller writes the documents under a lock.
package budget
