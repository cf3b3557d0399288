// Package sessionstatus computes the state of one session for readers: from what
// Temporal reports, what the store mirrors and has booked, and what a worker answers.
// It decides which source has priority for what, and adds sentences that a person
// should know: that no worker serves the session, that the mirror lags. It changes
// nothing and has no commands: how a session is printed or drawn, and which commands
// answer it, is up to its callers.
package sessionstatus
