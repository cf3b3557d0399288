// Package budget has the arithmetic of spending: budgets, what a reservation may take of them, and what a refusal says. It is
// pure. The rows are in [github.com/maestro-hive/maestro/internal/store/state].
//
// Start reading in budget.go, at Decide:
//
//	budget.go   whether a call is granted, waits for calls in progress or is refused; what is left of a budget; which warnings
//	            are due; what a raise adds
//	scope.go    the names of budgets, the day by UTC that a cost counts for, and when the next day's budget begins
//	refusal.go  what is said about a budget that cannot pay for a call, and the command that settles its unsettled calls
package budget
