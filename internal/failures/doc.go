// Package failures classifies what goes wrong. Its table has one rule for each category: who
// is at fault, what is retried, what the breaker counts, and what the next attempt or a
// person is told.
package failures
