// Package failures classifies failures. Its table has one rule for each category: who is at fault,
// what is retried, what the breaker counts, and the texts for the next attempt and for a person.
package failures
