// Package launch starts sessions: a new one, the next run of one that has ended, and a fork of another. It runs all checks
// first, stores the input, starts the workflow, and waits until a worker has admitted it.
//
// Errors are typed and name no command: callers add the command with which a person continues.
//
// Start reading in launch.go, at Check, Start and Admitted:
//
//	launch.go  what is checked before a start, how long a start waits for its admission, how ids of sessions are made, and what
//	           the Web UI and the memo say of the requirement
//	resume.go  from which checkpoint a session continues, which phases its next run keeps, what a fork reuses, and when a session
//	           counts as finished; sessions of a restored backup (Restart)
//	plan.go    what an admission would do, without a start; errors.go: why a session is not started or not admitted
package launch
