package workflows

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// The bounds of what a ticket's workflow keeps.
const (
	// maxPending is how many notices wait for the ticket system. Later ones are
	// counted and left out.
	maxPending = 50
	// maxFollowers is how many sessions are notified of the ticket; rememberedNotices
	// how many notices are recognised when they are sent again.
	maxFollowers      = 500
	rememberedNotices = 1000
)

// Outbox is what a ticket's workflow has to deliver, and what it knows of the ticket.
type Outbox struct {
	// Record is what the store keeps after the workflow has completed.
	Record session.TicketRecord `json:"record"`
	// How is how the newest session wants the ticket to be created.
	How *spec.HelpJira `json:"how,omitempty"`
	// Pending are the notices that the ticket does not have, in order.
	Pending []PendingNotice `json:"pending,omitempty"`
	// Doubt is since when there may be a ticket that no search has found; zero if there
	// is no doubt.
	Doubt time.Time `json:"doubt,omitzero"`
	// IndexDelay is how long after its creation a search may not find a ticket.
	IndexDelay textfmt.Duration `json:"index_delay,omitempty"`
	// Failed is how many tries in a row have failed.
	Failed int `json:"failed,omitempty"`
}

// PendingNotice is a notice that the ticket does not have.
type PendingNotice struct {
	Notice session.Notice `json:"notice"`
	// Occurrences is how often the failure had occurred by then.
	Occurrences int `json:"occurrences,omitempty"`
	// Omitted is how many later notices were left out because too many were pending.
	Omitted int `json:"omitted,omitempty"`
	// Tried: the ticket may have it.
	Tried bool `json:"tried,omitempty"`
}

// accept queues a notice, unless it was accepted before. failure: the ticket is that of
// a failure, whose occurrences are counted.
func (o *Outbox) accept(in activities.TicketNotice, failure bool) {
	n := in.Notice
	if !o.firstTime(n.ID) {
		return
	}
	if in.Jira != nil {
		o.How = in.Jira
	}
	o.updateFollowers(n, in.Quiet)
	if failure && n.Event == session.HelpAsked {
		o.Record.Ticket.Occurrences++
	}
	if len(o.Pending) >= maxPending {
		o.Pending[len(o.Pending)-1].Omitted++
		return
	}
	o.Pending = append(o.Pending, PendingNotice{Notice: n, Occurrences: o.Record.Ticket.Occurrences})
}

// firstTime reports whether a notice is new, and remembers it.
func (o *Outbox) firstTime(id string) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	mark := strconv.FormatUint(h.Sum64(), 36)
	if slices.Contains(o.Record.Seen, mark) {
		return false
	}
	o.Record.Seen = append(o.Record.Seen, mark)
	o.Record.Seen = o.Record.Seen[max(0, len(o.Record.Seen)-rememberedNotices):]
	return true
}

// updateFollowers keeps the list of sessions that are notified of the ticket.
func (o *Outbox) updateFollowers(n session.Notice, quiet bool) {
	followers := o.Record.Followers
	switch {
	case n.Ends():
		followers = slices.DeleteFunc(followers, func(f session.TicketFollower) bool { return f.Session == n.Session })
	case n.Request == nil:
	case n.Event == session.RequestClosed:
		followers = slices.DeleteFunc(followers, func(f session.TicketFollower) bool {
			return f.Session == n.Session &&
				f.Request == n.Request.ID
		})
	case n.Asks() && !quiet:
		followers = append(followers, session.TicketFollower{Session: n.Session, Request: n.Request.ID})
		followers = followers[max(0, len(followers)-maxFollowers):]
	}
	o.Record.Followers = followers
}

// delivered removes the first pending notice.
func (o *Outbox) delivered() { o.Pending = slices.Delete(o.Pending, 0, 1) }

// succeeded notes that the last try has succeeded.
func (o *Outbox) succeeded() { o.Record.Kind, o.Record.Ticket.Trouble, o.Failed = "", "", 0 }

// state names what followers are notified of; empty if that is nothing yet.
func (o *Outbox) state() string {
	key, kind := o.Record.Ticket.Key, o.Record.Kind
	switch {
	case key == "" && kind == "":
		return ""
	case kind == session.Misconfigured || kind == session.Gone:
		return key + " " + string(kind) + " " + o.Record.Ticket.Trouble
	}
	return key + " " + string(kind)
}

// toNotify finds a follower that does not know the ticket's state; nil if there is none.
func (o *Outbox) toNotify() *session.TicketFollower {
	state := o.state()
	if state == "" {
		return nil
	}
	i := slices.IndexFunc(o.Record.Followers, func(f session.TicketFollower) bool { return f.Notified != state })
	if i < 0 {
		return nil
	}
	return &o.Record.Followers[i]
}

// unfollow drops a session that is gone.
func (o *Outbox) unfollow(sessionID string) {
	o.Record.Followers = slices.DeleteFunc(o.Record.Followers, func(f session.TicketFollower) bool { return f.Session == sessionID })
}

// view is what is shown of the ticket.
func (o *Outbox) view() TicketView {
	v := TicketView{Ticket: o.Record.Ticket, Kind: o.Record.Kind, State: TicketCurrent}
	for _, p := range o.Pending {
		v.Waiting += 1 + p.Omitted
	}
	switch {
	case o.Record.Kind != "":
		v.State = TicketInTrouble
	case v.Waiting > 0:
		v.State = TicketPending
	}
	return v
}
