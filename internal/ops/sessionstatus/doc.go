// Package sessionstatus reads the state of one session: its status document, joined by key with the
// records of assignments at work and the sums of its calls; and the facts that only Temporal has: whether the
// run is open or how it closed, retry times, idle queues and heartbeats. It changes nothing and has
// no commands: callers decide how a session is displayed, and which commands answer it.
package sessionstatus
