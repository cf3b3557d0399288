package activities

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Observer records what happens, for metrics and traces. Its methods return at
// once and cannot fail. Wherever a struct here takes an Observer, nil is one that
// records nothing.
type Observer interface {
	// SessionStarted: a session, or a further incarnation of one, is admitted.
	SessionStarted(teamName string)
	// SessionEnded: it is completed, failed or cancelled. help lists what it
	// failed of, where a person has to help.
	SessionEnded(teamName string, state session.State, help []session.Request)
	// AssignmentEnded: its work is done, or given up. One that is restored,
	// supplied or skipped has ended when its session starts.
	AssignmentEnded(teamName string, state session.State)
	// RoundEnded: it succeeded, with no category, or is given up. A round that
	// another execution takes up again has not ended.
	RoundEnded(agent string, category failures.Category)
	// WorkerLost: an execution of a round has found that the one before it
	// ended without noting how.
	WorkerLost(agent string)
	// StoreWaited: something had to be tried again since the store could not
	// be used, after a wait of so long.
	StoreWaited(d time.Duration)
	// OutsideCalled: a call of those outside has ended, as [CallOutcomes] has it.
	OutsideCalled(whom Whom, outcome string)

	// AttemptBegun opens an attempt. What happens in it goes by the context
	// that is returned; ended has to be called once.
	AttemptBegun(ctx context.Context, a Attempt) (attempt context.Context, ended func(AttemptEnd))
	// CallBegun opens a paid call, of which the answer is not stored yet, on
	// the same terms.
	CallBegun(ctx context.Context, c Call) (call context.Context, ended func(CallEnd))
	// CallReplayed: the answer to a call was found in the store, and nothing
	// is paid.
	CallReplayed(c Call)
	// BudgetFraction: this part of a budget is spent; 1 is all of it.
	// Scope is persona, phase or session.
	BudgetFraction(teamName, scope string, fraction float64)
}

// Whom is who is called outside.
type Whom string

// Those outside.
const (
	TicketSystem    Whom = "jira"
	WebhookReceiver Whom = "webhook"
)

// CallOutcomes lists what calls of those outside can come to.
func CallOutcomes() map[Whom][]string {
	return map[Whom][]string{
		TicketSystem:    {callDone, string(session.Unreached), string(session.Unclear), string(session.Misconfigured), string(session.Gone)},
		WebhookReceiver: {callDone, string(session.Unreached), callRefused},
	}
}

const (
	callDone    = "ok"
	callRefused = "refused"
)

// Attempt says whose attempt it is.
type Attempt struct {
	Team, Session string
	spec.AssignmentID
	Agent string
	// Round and Attempt count from 1; Attempt within the round.
	Round, Attempt int
}

// AttemptEnd is what an attempt has come to.
type AttemptEnd struct {
	// Category is that of its failure; empty for a success.
	Category failures.Category
	// Interrupted: it has neither succeeded nor failed, and is not counted.
	Interrupted bool
}

// Call says who answers a paid call, and for whom.
type Call struct {
	Team, Session string
	Agent         string
	// API names the API of the provider, and Server is its host; empty: the call is a whole attempt of
	// an agent program.
	API, Model, Server string
}

// CallEnd is what a paid call has come to.
type CallEnd struct {
	// Category is that of its failure; empty for an answer.
	Category failures.Category
	// Usage is what is booked for it.
	Usage cost.Usage
	// Stored: its answer is in the store, for whoever needs it again.
	Stored bool
	// Answer is what the provider has said.
	Answer session.CallAnswer
}

// observerOrNone is an observer that is not nil.
func observerOrNone(o Observer) Observer {
	if o == nil {
		return noObserver{}
	}
	return o
}

// noObserver is an observer that records nothing.
type noObserver struct{}

func (noObserver) SessionStarted(string)                                 {}
func (noObserver) SessionEnded(string, session.State, []session.Request) {}
func (noObserver) AssignmentEnded(string, session.State)                 {}
func (noObserver) RoundEnded(string, failures.Category)                  {}
func (noObserver) WorkerLost(string)                                     {}
func (noObserver) StoreWaited(time.Duration)                             {}
func (noObserver) OutsideCalled(Whom, string)                            {}
func (noObserver) CallReplayed(Call)                                     {}
func (noObserver) BudgetFraction(string, string, float64)                {}

func (noObserver) AttemptBegun(ctx context.Context, _ Attempt) (context.Context, func(AttemptEnd)) {
	return ctx, func(AttemptEnd) {}
}

func (noObserver) CallBegun(ctx context.Context, _ Call) (context.Context, func(CallEnd)) {
	return ctx, func(CallEnd) {}
}
