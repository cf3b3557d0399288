// Package sessionstatus tells how one session stands, as it is seen from outside: from what
// Temporal says of it, what the store mirrors and has booked, and what a worker answers.
// It decides which source is believed in what, and says in sentences what a person
// should know besides: that nobody serves the session, that the mirror lags. It changes
// nothing and knows no command: how a session is written or drawn, and what can be typed
// about it, is its callers' business.
package sessionstatus
