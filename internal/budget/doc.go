// Package budget is the arithmetic of spending. A [Journal] has every paid call
// of an assignment; a [Ledger] sums a session's journals up, with what is set
// aside for calls under way, and holds both to the session's limits. It is pure:
// the caller writes the documents under a lock.
package budget
