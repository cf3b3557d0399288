// Package doctor checks everything that a session needs: this program and those that it starts, the store and its disk space,
// Temporal and its namespace, workers, breakers, a worker file. Each finding has a remedy, and a check that hangs is a finding
// and does not stop the others. It changes nothing, and fixes nothing: it writes a file to the store that it removes again.
//
// Start reading at the table of checks in doctor.go:
//
//	doctor.go    which checks there are, in which order, what each one needs, how long one may take, and the remedies in a
//	             container
//	store.go     below how much free space, and how many free files, a warning is given; whether the store can be written, is
//	             private, and keeps what it has committed
//	temporal.go  the oldest version of the server, how slow its answer may be, how long the namespace has to keep ended sessions,
//	             missing search attributes, and sessions that wait for the store or make no progress
//	workers.go   whether live workers offer the agents and poll their queues, workers that serve a copy of the store, and open
//	             breakers
//	file.go      the worker file: the programs and variables that it needs, the credentials of Jira and the webhook, whether
//	             rooms work on this host, and which git is too old
//	machine.go   the programs of this machine: Maestro's own, the Temporal server's and git
package doctor
