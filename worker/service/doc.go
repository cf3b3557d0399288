// Package service is the worker. It implements the ports of the activities with the store and the agents, serves the task
// queues of one store, publishes the worker's offer in the store, and drains when it is stopped.
//
// Start reading in worker.go: Build makes a worker, and Run has its life from the first poll to the end of the drain.
//
//	worker.go        what a worker does at its start, beside its work and at its end, how long attempts continue after a stop by
//	                 default, how many pollers a queue has, and how often caches are trimmed and unused layers removed
//	plan.go          what is made of a version of the worker file: directories, caches, layers, clients of Jira and the webhook
//	queues.go        which workflows and activities run on which task queue, and with which plan; slots.go: how many rounds of an
//	                 agent run at once
//	reload.go        when a changed worker file takes effect, which queues begin and end, and what happens if the file has
//	                 errors; signals.go: what SIGHUP does
//	offer.go         when the worker's offer is published, renewed and withdrawn
//	drain.go         how long a stopping worker waits for running work, and what it logs meanwhile
//	worker_slot.go   which identity a worker has in Temporal, and how many workers of a store a host may have
//	reclaim.go       which activities of a crashed process are retried at once; orphans.go: sessions that Temporal has lost,
//	                 which are logged
//	after_restore.go  which sessions are restarted after a backup was restored; backup.go: when the worker backs the store up, and
//	                 tries again
//	space.go         what is removed from a full disk, in which order, and how often that is tried in vain
//	health.go        when the process should be restarted (/healthz), when a worker is ready (/readyz), and how long a check may
//	                 take; health_command.go: the port, and the `health` command; connecting.go: how often a start tries to reach
//	                 Temporal
//	gauges.go        how often gauges are updated, and when Temporal counts as delivering no work
//	recipients.go    which workflow takes a notice, how many calls of Jira and of the webhook are made at once, and with which
//	                 credentials
//	delivery.go      who does the work of phases that deliver, and how long a client of a code host is kept
//	ports.go         heartbeats, when an execution counts as replaced, and signals of outages; interceptor.go: the attributes of
//	                 log lines, and which rounds and merges are running
//	command.go       the flags and exit codes of the worker's program, and how often a worker that is older than the database
//	                 tries to open it
package service
