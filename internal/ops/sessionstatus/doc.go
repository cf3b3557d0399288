// Package sessionstatus reads the state of one session: its status document, joined by key with the records of assignments at
// work and the sums of its calls; and the facts that only Temporal has: whether the run is open or how it closed, retry times,
// idle queues and heartbeats. It changes nothing and has no commands: callers decide how a session is displayed, and which
// commands answer it.
//
// Start reading in reader.go, at Look:
//
//	reader.go   which sources are asked, in which order, and whether a run is admitted
//	merge.go    which source counts, what Temporal adds, what is said if it no longer has the session, and why a session has
//	            ended
//	join.go     the status in the store, with what assignments and pull requests have done since the newest boundary
//	session.go  the document of a session's state; intervention.go: what people and reviewing agents did, and how many entries
//	            are kept
//	queues.go   whether a worker polls for the session's work, and when Temporal counts as delivering none
//	stuck.go    after how many failed workflow tasks a session counts as stuck; storewait.go: whether it waits for the store, or
//	            a merge waits
//	decode.go   how memo, search attributes, heartbeats and errors of Temporal are read
package sessionstatus
