package workflows

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// The bounds of what a ticket's workflow keeps.
const (
	// maxWaiting is how many notices wait in line. What comes then is taken
	// together with what waits, whatever the order.
	maxWaiting = 50
	// maxNamed is how many sessions one comment names.
	maxNamed = 10
	// maxAsking is how many sessions hear of the ticket; rememberedNotices how many
	// notices it knows again.
	maxAsking         = 500
	rememberedNotices = 1000
)

// Outbox is what a ticket's workflow has yet to tell, and what it knows of the ticket.
type Outbox struct {
	Ticket team.Ticket `json:"ticket"`
	// Kind is that of the ticket's trouble; empty: there is none.
	Kind team.TroubleKind `json:"kind,omitempty"`
	// How is how the newest session wants the ticket to be made.
	How *team.HelpJira `json:"how,omitempty"`
	// Waiting are the notices that the ticket does not have, in order.
	Waiting []WaitingNotice `json:"waiting,omitempty"`
	// Told is how many occurrences the ticket tells of, and Commented when it was last
	// told of anything.
	Told      int       `json:"told,omitempty"`
	Commented time.Time `json:"commented,omitzero"`
	// Asking are the sessions that wait for a person because of the failure.
	Asking []AskingSession `json:"asking,omitempty"`
	// Seen has a short hash of each notice that was taken, the oldest first.
	Seen []string `json:"seen,omitempty"`
	// Doubt is since when there may be a ticket that nobody has found; zero: there
	// is no doubt.
	Doubt time.Time `json:"doubt,omitzero"`
	// Gone is the key of a ticket that was deleted.
	Gone string `json:"gone,omitempty"`
	// IndexDelay is how long after its creation a ticket may not be found.
	IndexDelay team.Duration `json:"index_delay,omitempty"`
	// Failed is how many tries in a row came to nothing.
	Failed int `json:"failed,omitempty"`
}

// WaitingNotice is a notice in line, which may stand for several.
type WaitingNotice struct {
	Notice team.Notice `json:"notice"`
	// Sessions are those that it is about, the notice's own first: as many as the
	// order of notices has to be known for.
	Sessions []string `json:"sessions"`
	// Tried: the ticket may have it, so it stays as it is.
	Tried bool `json:"tried,omitempty"`
}

// AskingSession is a session that wants to hear of the ticket of its request.
type AskingSession struct {
	Session string `json:"session"`
	Request string `json:"request"`
	// Heard is what it was told of last; see [Outbox.news].
	Heard string `json:"heard,omitempty"`
}

// take puts a notice in line, unless it was taken before. failure: the ticket is that
// of a failure, whose occurrences count and are told together. busy: the first in line
// is being told at the moment.
func (o *Outbox) take(t activities.Telling, failure, busy bool) {
	if !o.firstTime(t.Notice.ID) {
		return
	}
	if t.Jira != nil {
		o.How = t.Jira
	}
	n := t.Notice
	o.heed(n, t.Quiet)
	if failure && n.Event == team.HelpAsked {
		o.Ticket.Occurrences++
	}
	n.Times, n.Also = 1, nil
	if into := o.company(n, busy); into != nil && (failure || len(o.Waiting) >= maxWaiting) {
		if !alike(into.Notice, n) {
			into.Notice.Answer = nil // several were given
		}
		into.add(n.Session)
		return
	}
	o.Waiting = append(o.Waiting, WaitingNotice{Notice: n, Sessions: []string{n.Session}})
}

// firstTime tells whether a notice is new, and remembers it.
func (o *Outbox) firstTime(id string) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	mark := strconv.FormatUint(h.Sum64(), 36)
	if slices.Contains(o.Seen, mark) {
		return false
	}
	o.Seen = append(o.Seen, mark)
	o.Seen = o.Seen[max(0, len(o.Seen)-rememberedNotices):]
	return true
}

// heed keeps the list of sessions that want to hear of the ticket.
func (o *Outbox) heed(n team.Notice, quiet bool) {
	switch {
	case n.Ends():
		o.Asking = slices.DeleteFunc(o.Asking, func(a AskingSession) bool { return a.Session == n.Session })
	case n.Request == nil:
	case n.Event == team.WentOn:
		o.Asking = slices.DeleteFunc(o.Asking, func(a AskingSession) bool { return a.Session == n.Session && a.Request == n.Request.ID })
	case n.Asks() && !quiet:
		o.Asking = append(o.Asking, AskingSession{Session: n.Session, Request: n.Request.ID})
		o.Asking = o.Asking[max(0, len(o.Asking)-maxAsking):]
	}
}

// company finds the notice in line that a new one can be told with: one that says the
// same of other sessions, and after which nothing else is told of this one; in a full
// line, one of the same event. nil: there is none.
func (o *Outbox) company(n team.Notice, busy bool) *WaitingNotice {
	full := len(o.Waiting) >= maxWaiting
	for i := len(o.Waiting) - 1; i >= 0; i-- {
		w := &o.Waiting[i]
		first := i == 0 && (busy || o.Ticket.Key == "") // it is being told, or becomes the ticket
		if (alike(w.Notice, n) || full && w.Notice.Event == n.Event) && !w.Tried && !first {
			return w
		}
		if !full && (slices.Contains(w.Sessions, n.Session) || len(w.Sessions) == maxAsking) {
			return nil
		}
	}
	return nil
}

// alike tells whether two notices say the same, of whatever session.
func alike(a, b team.Notice) bool {
	if a.Event != b.Event || (a.Answer == nil) != (b.Answer == nil) {
		return false
	}
	return a.Answer == nil || a.Answer.Verb == b.Answer.Verb && a.Answer.Note == b.Answer.Note && a.Answer.By == b.Answer.By
}

// add has a notice stand for one more occurrence.
func (w *WaitingNotice) add(session string) {
	w.Notice.Times++
	if slices.Contains(w.Sessions, session) {
		return
	}
	if len(w.Sessions) < maxAsking {
		w.Sessions = append(w.Sessions, session)
	}
	w.Notice.Also = w.Sessions[1:min(len(w.Sessions), maxNamed)]
}

// sent takes the first in line out: the ticket has it.
func (o *Outbox) sent(now time.Time) {
	if o.Waiting[0].Notice.Event == team.HelpAsked {
		o.Told += o.Waiting[0].Notice.Times
	}
	o.Commented = now
	o.Waiting = slices.Delete(o.Waiting, 0, 1)
}

// occurrences is how often the failure has occurred by the first in line.
func (o *Outbox) occurrences() int {
	if o.Waiting[0].Notice.Event == team.HelpAsked {
		return o.Told + o.Waiting[0].Notice.Times
	}
	return o.Told
}

// fine says that the last try has come to something.
func (o *Outbox) fine() { o.Kind, o.Ticket.Trouble, o.Failed = "", "", 0 }

// news names what there is to hear of the ticket; empty: nothing.
func (o *Outbox) news() string {
	switch {
	case o.Ticket.Key == "" && o.Kind == "":
		return ""
	case o.Kind == team.Misconfigured || o.Kind == team.Gone:
		return o.Ticket.Key + " " + string(o.Kind) + " " + o.Ticket.Trouble
	}
	return o.Ticket.Key + " " + string(o.Kind)
}

// unheard finds a session that has yet to hear of the ticket; nil: none.
func (o *Outbox) unheard() *AskingSession {
	news := o.news()
	if news == "" {
		return nil
	}
	i := slices.IndexFunc(o.Asking, func(a AskingSession) bool { return a.Heard != news })
	if i < 0 {
		return nil
	}
	return &o.Asking[i]
}

// forget drops a session that is gone.
func (o *Outbox) forget(session string) {
	o.Asking = slices.DeleteFunc(o.Asking, func(a AskingSession) bool { return a.Session == session })
}

// view is what is shown of the ticket.
func (o *Outbox) view() TicketView {
	v := TicketView{Ticket: o.Ticket, Kind: o.Kind, State: TicketCurrent}
	for _, w := range o.Waiting {
		v.Waiting += w.Notice.Times
	}
	switch {
	case o.Kind != "":
		v.State = TicketInTrouble
	case v.Waiting > 0:
		v.State = TicketPending
	}
	return v
}
