package access

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Outcome is how a change ended.
type Outcome = state.Outcome

// The outcomes.
const (
	Done   Outcome = "done"
	Failed Outcome = "failed"
	Denied Outcome = "denied"
	// Unknown is that of a change whose end is not recorded: it is under way, or its process
	// ended first.
	Unknown Outcome = "unknown"
)

// Event is an entry of the audit log.
type Event state.AuditEntry

// The bounds of an event's texts, in bytes.
const (
	maxWord   = 300
	maxDetail = 4 << 10
)

// withActor returns an event with the actor of the context and bounded texts.
func (e Event) withActor(ctx context.Context) Event {
	if a, ok := Of(ctx); ok {
		e.Actor, e.Owner, e.PersonID, e.Via, e.Program, e.From = a.Name, a.Owner, a.PersonID, a.Via, a.Program, a.From
	}
	for _, text := range e.texts() {
		*text = textfmt.Shorten(*text, maxWord)
	}
	e.Detail, e.Error = textfmt.Shorten(e.Detail, maxDetail), textfmt.Shorten(e.Error, maxDetail)
	return e
}

// Who names the actor, as [Actor.String] does.
func (e Event) Who() string { return describe(e.Actor, e.Owner, e.Program, e.Via) }

// texts are those that have to be short.
func (e *Event) texts() []*string {
	return []*string{&e.Actor, &e.Owner, &e.PersonID, &e.Program, &e.From, &e.Action, &e.Session, &e.Team, &e.Subject}
}

// printable returns an event for display: what would not be seen in its texts is
// written as Go does in strings.
func (e Event) printable() Event {
	for _, text := range append(e.texts(), &e.Detail, &e.Error) {
		*text = safetext.Name(*text)
	}
	e.Via, e.Outcome = Via(safetext.Name(string(e.Via))), Outcome(safetext.Name(string(e.Outcome)))
	return e
}

// outcomeOf is how a change ended that returned an error or nil, and the text of the error.
func outcomeOf(err error) (outcome Outcome, failure string) {
	if err == nil {
		return Done, ""
	}
	outcome = Failed
	if _, denied := errors.AsType[*DeniedError](err); denied {
		outcome = Denied
	}
	return outcome, textfmt.Shorten(err.Error(), maxDetail)
}
