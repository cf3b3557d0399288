package activities

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Observer records what happens, for metrics and traces. Its methods return at
// once and cannot fail.
type Observer interface {
	// SessionStarted: a session, or a further run of one, is admitted.
	SessionStarted(teamName string)
	// SessionEnded: it is completed, failed or cancelled.
	SessionEnded(teamName string, state session.State)
	// HelpRequested: an assignment is given up until a person helps, because of
	// failures of a category.
	HelpRequested(category failures.Category)
	// AssignmentEnded: its work is done, or given up. One that is restored,
	// supplied or skipped has ended when its session starts.
	AssignmentEnded(teamName string, state session.State)
	// RoundEnded: it succeeded, with no category, or is given up. A round that
	// another execution takes up again has not ended.
	RoundEnded(agent string, category failures.Category)
	// WorkerLost: an execution of a round has found that the one before it
	// ended without noting how.
	WorkerLost(agent string)
	// StoreWaited: an operation is retried after this wait, because the store could
	// not be used.
	StoreWaited(d time.Duration)
	// ExternalCalled: a call of an external system has ended, with an outcome of [CallOutcomes].
	ExternalCalled(whom ExternalSystem, outcome string)

	// AttemptBegun opens an attempt. The caller must use the returned context in
	// the attempt, and call ended once.
	AttemptBegun(ctx context.Context, a AttemptInfo) (attempt context.Context, ended func(AttemptOutcome))
	// CallBegun opens a paid call whose answer is not stored yet. The same rules
	// apply.
	CallBegun(ctx context.Context, c CallInfo) (call context.Context, ended func(CallOutcome))
	// CallReplayed: the answer to a call was found in the store, and nothing
	// is paid.
	CallReplayed(c CallInfo)
	// BudgetFraction: this part of a budget is spent; 1 is all of it.
	// Scope is persona, phase or session.
	BudgetFraction(teamName, scope string, fraction float64)
}

// ExternalSystem is a system outside Maestro that activities call.
type ExternalSystem string

// The external systems.
const (
	TicketSystem    ExternalSystem = "jira"
	WebhookReceiver ExternalSystem = "webhook"
)

// CallOutcomes lists the possible outcomes of calls of each external system.
func CallOutcomes() map[ExternalSystem][]string {
	return map[ExternalSystem][]string{
		TicketSystem: {
			callDone, string(session.Unreached), string(session.Unclear), string(session.Misconfigured),
			string(session.Gone),
		},
		WebhookReceiver: {callDone, string(session.Unreached), callRefused},
	}
}

const (
	callDone    = "ok"
	callRefused = "refused"
)

// AttemptInfo identifies an attempt.
type AttemptInfo struct {
	Team, Session string
	spec.AssignmentID
	Agent string
	// Round and Attempt count from 1; Attempt within the round.
	Round, Attempt int
}

// AttemptOutcome is the result of an attempt.
type AttemptOutcome struct {
	// Category is that of its failure; empty for a success.
	Category failures.Category
	// Interrupted: it has neither succeeded nor failed, and is not counted.
	Interrupted bool
}

// CallInfo identifies the agent, the model and the provider of a paid call.
type CallInfo struct {
	Team, Session string
	Agent         string
	// API names the API of the provider, and Server is its host; empty: the call is a whole attempt of
	// an agent program.
	API, Model, Server string
}

// CallOutcome is the result of a paid call.
type CallOutcome struct {
	// Category is that of its failure; empty for an answer.
	Category failures.Category
	// Usage is what is booked for it.
	Usage cost.Usage
	// Stored: its answer is in the store and can be reused.
	Stored bool
	// Answer is what the provider has said.
	Answer session.CallAnswer
}
