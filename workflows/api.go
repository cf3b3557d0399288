package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// TeamSessionName is the wire name of [TeamSession]. Its workflow id is the
// session's id.
const TeamSessionName = "team-session"

// StatusQuery is the query that returns a [session.Status], without the decisions, which the checkpoint has.
const StatusQuery = "status"

// The search attributes of a session.
var (
	AttributeTeam   = temporal.NewSearchAttributeKeyKeyword("MaestroTeam")
	AttributeStatus = temporal.NewSearchAttributeKeyKeyword("MaestroStatus")
	AttributePhase  = temporal.NewSearchAttributeKeyKeywordList("MaestroPhase")
	AttributeTokens = temporal.NewSearchAttributeKeyInt64("MaestroTokens")
)

// SearchAttributes returns all search attributes of a session.
func SearchAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{AttributeTeam, AttributeStatus, AttributePhase, AttributeTokens}
}

// SessionInput starts a session.
type SessionInput struct {
	// Version is the version of the session's logic: [LogicVersion].
	Version int `json:"version,omitempty"`
	session.Start
	// Continued is set when a run continues an earlier one as new.
	Continued *SessionState `json:"continued,omitempty"`
}

// ResolveUpdate is the update, and the signal, that answers a request of the
// session. Its argument is a [session.Answer]. The update returns the accepted
// answer, after the session's visible status has changed.
const ResolveUpdate = "resolve"

// TicketSignal reports the ticket of a request to its session, or why there is none
// yet. Its argument is a [TicketNews].
const TicketSignal = "ticket"

// TicketNews is a change of the ticket of a request.
type TicketNews struct {
	Request string         `json:"request"`
	Ticket  session.Ticket `json:"ticket"`
}

// NotAwaited is the type of the error that refuses an answer: it is stale or repeated,
// or the request does not accept it.
const NotAwaited = "NotAwaited"

// RaiseUpdate is the update, and the signal, that adds to a budget of a running
// session. Its argument is a [Raise]. A session that waits because the budget is spent
// continues where it was.
const RaiseUpdate = "raise-budget"

// NotRaised is the type of the error that refuses a [Raise] which would add nothing.
const NotRaised = "NotRaised"

// Raise adds to a budget.
type Raise struct {
	// Tokens and USD are the amounts to add.
	Tokens int64    `json:"tokens,omitempty"`
	USD    cost.USD `json:"usd,omitempty"`
	// Persona, Phase or Session says whose budget; without one it is the one that the session
	// waits for or, if it waits for none, the session's.
	Persona string `json:"persona,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Session bool   `json:"session,omitempty"`
	// By is who says so; Note is why.
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
	// ID makes a repeated signal recognisable; an update has an id of its own.
	ID string `json:"id,omitempty"`
}

// Scope is the budget that the raise names; empty if it names none.
func (r Raise) Scope() string {
	switch {
	case r.Persona != "":
		return budget.PersonaScope(r.Persona)
	case r.Phase != "":
		return budget.PhaseScope(r.Phase)
	case r.Session:
		return budget.SessionScope
	}
	return ""
}

// Misses says that a budget with a limit does not have what is to be raised; empty if it does.
func (r Raise) Misses(scope string, limit spec.Cap) string {
	what := ""
	switch {
	case r.Tokens > 0 && limit.Tokens == 0:
		what = "token"
	case r.USD > 0 && limit.USD == 0:
		what = "USD"
	default:
		return ""
	}
	return fmt.Sprintf("no %s budget for %s; `maestro budget show` lists all budgets", what,
		textfmt.Shorten(budget.Label(scope), 80))
}

// SessionResult is the result of a completed session.
type SessionResult struct {
	// Checkpoint is the last one.
	Checkpoint spec.Digest `json:"checkpoint"`
	Usage      cost.Usage  `json:"usage"`
}

// Memo keys. A session's memo is small: what a listing needs.
const (
	// MemoStore is the store's id; MemoTeam the team's name; MemoRequirement
	// the requirement's first words. They are set when the session starts.
	MemoStore       = "store"
	MemoTeam        = "team"
	MemoRequirement = "requirement"
	// MemoLabels are the session's labels.
	MemoLabels = "labels"
	// MemoStatus is a [MemoSummary], set when the session waits for a person, continues or ends.
	MemoStatus = "status"
)

// MemoSummary is the memo's short form of a status.
type MemoSummary struct {
	Status     session.State `json:"status"`
	Phase      string        `json:"phase,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	Checkpoint spec.Digest   `json:"checkpoint"`
	Usage      cost.Usage    `json:"usage"`
}

// LogicVersion is the version of the logic that new sessions run with. A change of the
// commands that a session issues raises it by one, and is gated by the version in the session's input,
// `if s.in.Version >= 2 { … }`: sessions that began before keep the logic with which they began. The number
// is in the input once; workflow.GetVersion would add an event for each change to each session instead.
const LogicVersion = 1

// requireVersion panics if this code does not have a version of the logic: then Temporal retries the
// workflow task until a newer worker executes it.
func requireVersion(version int) {
	if version > LogicVersion {
		panic(fmt.Sprintf("the session runs with version %d of the session logic, and this worker knows versions up to %d: upgrade "+
			"the worker", version, LogicVersion))
	}
}
