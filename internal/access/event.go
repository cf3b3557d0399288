package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Outcome is how a change ended.
type Outcome string

// The outcomes.
const (
	Done   Outcome = "done"
	Failed Outcome = "failed"
	Denied Outcome = "denied"
	// Unknown is that of a change whose end is not recorded: it is under way, or its process
	// ended first.
	Unknown Outcome = "unknown"
)

// Event is an entry of the audit log: who did what, when and from where.
type Event struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// Actor is who did it; empty: nobody was signed in. Owner made the actor, if that is a
	// token or a one-time link.
	Actor string `json:"actor"`
	Owner string `json:"owner,omitempty"`
	Via   Via    `json:"via,omitempty"`
	// Program is mcp if a program, like an agent, did it over MCP with the actor's rights.
	Program string `json:"program,omitempty"`
	// From is the address that the request came from; empty: the program ran on a host of the
	// store.
	From string `json:"from,omitempty"`
	// Action is what was done, like session.cancel.
	Action  string `json:"action"`
	Session string `json:"session,omitempty"`
	Team    string `json:"team,omitempty"`
	// Subject is what it was done to, besides the session: a phase, a breaker, a token.
	Subject string  `json:"subject,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Error says why it failed or was denied.
	Error   string     `json:"error,omitempty"`
	EndedAt *time.Time `json:"ended_at,omitempty"`
}

// end is a line of the journal about how an event ended whose line has no outcome.
type end struct {
	Of      string    `json:"of"`
	At      time.Time `json:"at"`
	Outcome Outcome   `json:"outcome"`
	Error   string    `json:"error,omitempty"`
}

// line is a line of the journal: an event or the end of one.
type line struct {
	Event *Event `json:"event,omitempty"`
	End   *end   `json:"end,omitempty"`
}

// The bounds of an event's texts, in bytes. A line of the journal has at most six times
// their sum, where each byte is escaped.
const (
	maxWord   = 300
	maxDetail = 4 << 10
)

// withActor returns an event with the actor of the context, its time and bounded texts.
func (e Event) withActor(ctx context.Context, now time.Time) Event {
	if a, ok := Of(ctx); ok {
		e.Actor, e.Owner, e.Via, e.Program, e.From = a.Name, a.Owner, a.Via, a.Program, a.From
	}
	e.ID, e.At = rand.Text(), now.UTC()
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
	return []*string{&e.Actor, &e.Owner, &e.Program, &e.From, &e.Action, &e.Session, &e.Team, &e.Subject}
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

// endOf is how a change ended that returned an error or nil.
func endOf(err error, now time.Time) end {
	var denied *DeniedError
	switch {
	case err == nil:
		return end{At: now.UTC(), Outcome: Done}
	case errors.As(err, &denied):
		return end{At: now.UTC(), Outcome: Denied, Error: textfmt.Shorten(err.Error(), maxDetail)}
	}
	return end{At: now.UTC(), Outcome: Failed, Error: textfmt.Shorten(err.Error(), maxDetail)}
}

// eventsIn are the events in a journal, in order, with their ends, and the number of each one's
// line. What cannot be read is left out and counted.
func eventsIn(data []byte) (events []Event, lines []int, unreadable int) {
	at := map[string]int{}
	n := 0
	for text := range wholeLines(data) {
		n++
		var l line
		err := json.Unmarshal(text, &l)
		switch {
		case err != nil, l.Event == nil && l.End == nil:
			unreadable++
		case l.Event != nil:
			l.Event.Outcome = cmp.Or(l.Event.Outcome, Unknown)
			at[l.Event.ID] = len(events)
			events, lines = append(events, *l.Event), append(lines, n)
		default:
			if i, ok := at[l.End.Of]; ok {
				events[i].Outcome, events[i].Error, events[i].EndedAt = l.End.Outcome, l.End.Error, &l.End.At
			}
		}
	}
	return events, lines, unreadable
}
