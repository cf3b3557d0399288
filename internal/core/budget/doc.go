// Package budget has the arithmetic of spending: budgets, what a reservation may take of them, and what a refusal says.
// It is pure. The rows are in [github.com/maestro-hive/maestro/internal/store/state].
package budget
