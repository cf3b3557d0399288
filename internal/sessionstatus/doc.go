// Package sessionstatus reads the state of one session: its status document, joined by key
// with the records of assignments at work and the ledger; and what only Temporal knows,
// which is whether the run is open or how it closed, retry times, idle queues and
// heartbeats. It changes nothing and has no commands: how a session is printed or drawn,
// and which commands answer it, is up to its callers.
package sessionstatus
