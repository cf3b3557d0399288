// Package activities does the work of sessions: rounds of assignments, merges of phases, checkpoints and status, waits,
// notices. The ports in ports.go are all that it needs from below.
//
// A round is retry level 2, and each execution of its activity does one attempt (level 1). Read round.go first: it has an
// attempt from its start to its end, with the outages that are waited out meanwhile; Temporal's retry begins the next one.
// Below it, each type uses only those after it:
//
//	attempt        decides what it starts from, fills the directory, runs the agent, collects and accepts its work (attempt.go).
//	               What earlier attempts leave to it is read in start.go, what the agent is told is in feedback.go, and how a
//	               crash after the agent's end is continued in ended.go
//	spender        reserves and books the paid calls of an attempt, and finds stored answers (calls.go; spender.go has what the
//	               round asks it)
//	lostCalls      books calls that died with a worker
//	outage.go      waits for a provider or a host that fails: waitsOut decides whether a failure is waited out or counted as
//	               an attempt, by the categories of internal/models/wire/classify.go
//	agentBreaker   permits, leases and reports of the agent's breaker (breaker.go)
//	checks         runs checks, collects files
//	roundRows      the rows of the round and its attempts: their only reader and writer
//	execution      lock, fence, stop of the worker, heartbeats, retries of the store
//	directory      the assignment's directory, and its use of the disk (disk.go)
//
// Beside rounds: waits.go waits for a breaker or a budget before a round begins; admit.go lets a session begin, and restore.go
// and reuse.go decide which of its earlier work counts;
// merge.go merges the work of a phase; boundary.go writes what a session is after each step, with its checkpoint; answers.go
// writes a person's answer, and rework.go work that is sent back.
package activities
