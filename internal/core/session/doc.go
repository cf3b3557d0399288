// Package session has what is recorded of a session: its status, the records of its assignments, its checkpoints, its requests
// to people and its notices.
//
// The package is pure: it reads no clock, no environment and no file. Only [Timer], which no workflow uses, runs on the real
// clock. The workflow, the activities and the command line share it.
//
// Start reading in status.go, which has the states, and record.go:
//
//	status.go        the states of sessions, phases and assignments, which state a session has when parts of it wait (Standing),
//	                 which failed attempts count, and how many of them travel through the history
//	record.go        what is kept of rounds, attempts and their waits across executions; the checkpoint; start.go: what a run is
//	                 started with
//	job.go           what an agent gets (Brief, Job) and returns (Outcome); the largest summary, decision, message, output and
//	                 diff
//	basis.go         which changed inputs make finished work stale, so that it runs again
//	course.go        the phases that a session runs, pauses after, forces or gets supplied, and contradictions in that;
//	                 supply.go: how supplied work stands for a phase's
//	merge_steps.go   the order in which work is merged, and which work was made without knowledge of other work; conflict.go:
//	                 when a conflict is settled, and whose version is kept
//	request.go       the kinds of requests and the answers that each one takes; the longest note and the longest reasons; what
//	                 work was sent back. request_commands.go: the commands that answer
//	action.go        what each answer does, and whether it needs a note or files
//	quorum.go        how many persons have to approve, of which groups, and why an approval does not count
//	outage.go        how long a wait for a provider is, the longest announced wait that is accepted, and when patience begins
//	breaker.go       the status of a breaker, when it is half-open, and what a round reports to it
//	call.go          what is recorded before and after each paid call, and what a killed program gets that repeats a call
//	paused_time.go   which time does not count against the time limit of an attempt
//	lease.go         how long a lease lasts, how often it is renewed, and how long work goes on after a renewal or a heartbeat
//	disk.go          when a disk is low or full, and which attempt has filled it or exceeded its limit
//	collect.go       what a collection of files takes and returns, and how much is said of files that were left out
//	conversation.go  what identifies a conversation that an agent program continues, also on another host
//	alert.go         when the threshold of an alert is reached, and how many alerts a status keeps
//	notice.go        the events of which people are notified, and the kinds of failed calls of tickets and webhooks;
//	                 ticketrecord.go: the row of a ticket; fingerprint.go: which failures share one ticket
//	labels.go        how many labels a session may have, and their longest keys and values
//	prune.go         what a prune may be told to keep, and what it reports; errors.go: the errors of the store, and the names of
//	                 errors in Temporal
package session
