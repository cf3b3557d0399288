// Package activities does the work of sessions: rounds of assignments, merges of
// phases, checkpoints and status, waits, notices.
//
// A round is retry level 2, and each of its activity executions does attempts (level 1).
// Read round.go first. Each type uses only those below it:
//
//	round           the loop of attempts; decides on another attempt, the result, the end of the round
//	phaseMerge      the merge of a phase and its checks
//	attempt         fills the directory, runs the agent, collects, checks; start decides what it starts from
//	spender         paid calls and stored answers of an attempt
//	reservedCall        one call in flight
//	lostCalls       books calls that died with a worker
//	callObserver    reports calls to the observer
//	outageWait      waits for a provider or a host that fails
//	agentBreaker    permits, leases and reports of the agent's breaker
//	checks          runs checks, collects files
//	roundLog        the rows of the round and its attempts; their only writer
//	execution       lock, fence, stop of the worker, retries of the store
//	directory       the assignment's directory, and its use of the disk
//	heartbeats      reports to Temporal
//
// The activities depend on the ports in ports.go, not on their implementations.
package activities
