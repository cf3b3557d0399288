// Package activities does the work of sessions: rounds of assignments, merges of phases, checkpoints and status, waits,
// notices. The ports in ports.go are all that it needs from below.
//
// A round is retry level 2, and each execution of its activity does one attempt (level 1). Read round.go first: it has an
// attempt from its start to its end, with the outages that are waited out meanwhile; Temporal's retry begins the next one.
// What a round uses:
//
//	attempt.go     decides what an attempt starts from, fills the directory, runs the agent, collects and accepts its work
//	start.go       what earlier attempts leave to it; feedback.go: what the agent is told of them; ended.go: how a crash after the
//	               agent's end is continued; conversation.go: conversations of programs, also on other hosts
//	checks.go      the checks, and what the work has to contain; supplied.go: files of a person in place of an agent's
//	delivery.go    what an agent that delivers gets; merge_conflict.go: the conflicts that an integrator gets, and what it settles
//	calls.go       the spender: reserves and books the paid calls of an attempt, and finds stored answers
//	lost_calls.go  books calls that died with a worker
//	outage.go      waits for a provider or a host that fails: waitsOut decides whether a failure is waited out or counted as
//	               an attempt, by the categories of internal/models/wire/classify.go, nextInOutage when a team's patience is over
//	breaker.go     the agent's breaker: permits, leases, reports, and whether it lets a call through
//	round_rows.go  the rows of the round and its attempts: their only reader and writer; lost workers are counted here
//	execution.go   lock, fence, stop of the worker, heartbeats, retries of the store
//	disk.go        the assignment's directory, and a disk that is full
//
// Beside rounds:
//
//	admit.go       lets a session begin; earlier_work.go reads what earlier runs have done, restore.go decides what of it stands,
//	               with reuse.go (is it stale? supplied files) and restore_answers.go (what persons have said)
//	merge.go       merges the work of a phase
//	boundary.go    writes what a session is after each step, with its checkpoint and a person's answer; rework.go: work that is
//	               sent back
//	waits.go       waits for a breaker or a budget before a round begins
//	notify.go      gives notices to tickets and webhooks; tickets.go: what a ticket's workflow needs; prune.go: old data
//
// api.go has the names and inputs of all activities, errors.go which of their errors are permanent, large.go values that no
// payload can have, observe.go what metrics hear, and logging.go the lines of the log.
package activities
