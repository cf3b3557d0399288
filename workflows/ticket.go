package workflows

import (
	"cmp"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// TicketName is the wire name of [Ticket].
const TicketName = "ticket"

// TicketID is the workflow id of a ticket: that of a failure, by its fingerprint, or
// one that is known, by its key. There is one for all sessions of a store.
func TicketID(store, name string) string { return "ticket/" + store + "/" + name }

// TicketLabel is the label that the ticket of a failure carries.
func TicketLabel(fingerprint string) string { return team.TicketLabelPrefix + fingerprint }

// The updates and the query of a ticket.
const (
	// TellUpdate takes an [activities.Telling], RetryUpdate nothing. Both answer with
	// a [TicketView], at once.
	TellUpdate  = "tell"
	RetryUpdate = "retry"
	// TicketQuery answers with a [TicketView].
	TicketQuery = "ticket"
)

// MemoTicket is where a ticket's memo has its [TicketView].
const MemoTicket = "ticket"

// TicketState says whether a ticket is up to date.
type TicketState string

// The states of a ticket.
const (
	// TicketCurrent: it has all that was told.
	TicketCurrent TicketState = "current"
	// TicketPending: something is on its way to it.
	TicketPending TicketState = "pending"
	// TicketInTrouble: something is in the way; it is tried again.
	TicketInTrouble TicketState = "trouble"
)

// TicketView is what a ticket's workflow shows of it.
type TicketView struct {
	team.Ticket
	State TicketState `json:"state"`
	// Kind is the kind of the trouble, if there is one.
	Kind team.TroubleKind `json:"kind,omitempty"`
	// Waiting is how many notices the ticket does not have yet.
	Waiting int `json:"waiting,omitempty"`
}

// TicketInput is all that a ticket's workflow starts from, and continues as new with.
type TicketInput struct {
	Store string `json:"store"`
	// Fingerprint names the failure whose ticket it is; empty: the ticket is there
	// already, under Key, and is never made.
	Fingerprint string `json:"fingerprint,omitempty"`
	Key         string `json:"key,omitempty"`
	Outbox      Outbox `json:"outbox,omitzero"`
}

// Ticket keeps one ticket up to date with what it is told of sessions.
//
// What an update that was acknowledged has told reaches the ticket once and in order,
// however long the ticket system is away and whatever is killed meanwhile. A notice
// counts once, however often it is told, also to a later run. A ticket is made only
// after a search has not found one; when it is not known whether one was made, only
// after a search that a new ticket cannot have escaped. Notices that wait together are
// one comment. The workflow never completes: when its history has grown it continues
// as new between two tries.
func Ticket(ctx workflow.Context, in TicketInput) error {
	t := &ticket{TicketInput: in}
	if in.Fingerprint == "" {
		t.Outbox.Ticket.Key = in.Key
	}
	t.shown = t.Outbox.view()
	if err := t.handle(ctx); err != nil {
		return err
	}
	workflow.Go(ctx, t.tellSessions)
	for !t.continues(ctx) {
		if err := t.deliver(ctx); err != nil {
			return err
		}
		err := workflow.Await(ctx, func() bool { return len(t.Outbox.Waiting) > 0 || t.continues(ctx) })
		if err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, TicketName, t.TicketInput)
}

// ticket is a running one.
type ticket struct {
	TicketInput
	// shown is what the memo has.
	shown TicketView
	// busy: the first in line is being told. signalling: a session is.
	busy, signalling bool
	// woken: somebody wants the next try at once. told: a notice has come.
	woken, told bool
}

// continues tells whether it is time to continue as new, and nothing is under way.
func (t *ticket) continues(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx) && !t.signalling
}

func (t *ticket) handle(ctx workflow.Context) error {
	err := workflow.SetQueryHandlerWithOptions(ctx, TicketQuery, func() (TicketView, error) { return t.Outbox.view(), nil },
		workflow.QueryHandlerOptions{Description: "The ticket, whether it is up to date, and what is in the way."})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, TellUpdate, t.tell, workflow.UpdateHandlerOptions{
		Validator: t.tellable, Description: "Tells the ticket what happens to a session; sent by workers.",
	})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, RetryUpdate, t.retry, workflow.UpdateHandlerOptions{
		Description: "Tries at once what waits for the next try, after something was mended. It takes no argument.",
	})
}

func (t *ticket) tell(ctx workflow.Context, told activities.Telling) (TicketView, error) {
	t.Outbox.take(told, t.Fingerprint != "", t.busy)
	t.told = true
	err := t.show(ctx)
	return t.shown, err
}

func (t *ticket) retry(workflow.Context) (TicketView, error) {
	t.woken = true
	return t.Outbox.view(), nil
}

// tellable refuses what no session tells.
func (t *ticket) tellable(told activities.Telling) error {
	why := ""
	switch {
	case told.Notice.ID == "" || told.Notice.Session == "":
		why = "the notice has no id, or names no session"
	case t.Fingerprint != "" && told.Jira == nil && t.Outbox.How == nil:
		why = "it does not say how the ticket is made"
	default:
		return nil
	}
	return temporal.NewApplicationErrorWithOptions("nothing is told: "+why, "NotTold",
		temporal.ApplicationErrorOptions{NonRetryable: true})
}

// show brings the memo up to date.
func (t *ticket) show(ctx workflow.Context) error {
	view := t.Outbox.view()
	if view == t.shown {
		return nil
	}
	t.shown = view
	return workflow.UpsertMemo(ctx, map[string]any{MemoTicket: view})
}

// tellSessions tells every session that waits for a person what becomes known of the
// ticket. One that is gone is forgotten.
func (t *ticket) tellSessions(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, func() bool { return t.Outbox.unheard() != nil }) != nil {
			return
		}
		to := t.Outbox.unheard()
		to.Heard = t.Outbox.news()
		session, news := to.Session, TicketNews{Request: to.Request, Ticket: t.Outbox.Ticket}
		t.signalling = true
		if err := workflow.SignalExternalWorkflow(ctx, session, "", TicketSignal, news).Get(ctx, nil); err != nil {
			t.Outbox.forget(session)
		}
		t.signalling = false
	}
}

// deliver has one try at the first in line, and waits if it comes to nothing.
func (t *ticket) deliver(ctx workflow.Context) error {
	if len(t.Outbox.Waiting) == 0 {
		return nil
	}
	if wait := t.gathering(ctx); wait > 0 && !t.woken {
		return t.pause(ctx, wait)
	}
	t.busy, t.told, t.woken = true, false, false
	var err error
	if t.Outbox.Ticket.Key == "" {
		err = t.establish(ctx)
	} else {
		err = t.comment(ctx)
	}
	t.busy = false
	if temporal.IsCanceledError(err) {
		return err
	}
	wait := t.settle(err)
	if err := t.show(ctx); err != nil || wait == 0 {
		return err
	}
	return t.pause(ctx, wait)
}

// errUnsure: the search has not found a ticket that may be there.
var errUnsure = errors.New("it is not known whether there is a ticket")

// establish finds the failure's ticket, or makes one of the first in line.
func (t *ticket) establish(ctx workflow.Context) error {
	o, began := &t.Outbox, workflow.Now(ctx)
	var found activities.FoundTicket
	err := t.call(ctx, activities.FindTicketName, activities.FindTicket{Project: o.How.Project, Label: TicketLabel(t.Fingerprint)}, &found)
	if err != nil {
		return err
	}
	o.IndexDelay = cmp.Or(found.IndexDelay, defaultIndexDelay)
	first := o.Waiting[0].Notice
	switch {
	case found.Found && found.Ticket.Key != o.Gone:
		t.knows(found.Ticket)
		if !o.Doubt.IsZero() { // it was made of the first in line
			o.Doubt = time.Time{}
			o.sent(workflow.Now(ctx))
		}
		return nil
	case began.Before(o.Doubt.Add(o.IndexDelay.Std())):
		return errUnsure
	case !first.Asks():
		o.sent(workflow.Now(ctx)) // nobody has to look at a ticket for that
		return nil
	}
	var made team.Ticket
	err = t.call(ctx, activities.CreateTicketName, activities.CreateTicket{How: *o.How, Label: TicketLabel(t.Fingerprint), Notice: first}, &made)
	switch fault, said := faultOf(err); {
	case err == nil:
		t.knows(made)
		o.Doubt = time.Time{}
		o.sent(workflow.Now(ctx))
	case !said || fault.Kind == team.Unclear:
		o.Waiting[0].Tried, o.Doubt = true, workflow.Now(ctx)
	}
	return err
}

// knows takes in which ticket it is.
func (t *ticket) knows(found team.Ticket) {
	t.Outbox.Ticket.Key, t.Outbox.Ticket.URL = found.Key, found.URL
}

// comment adds the first in line to the ticket.
func (t *ticket) comment(ctx workflow.Context) error {
	o := &t.Outbox
	in := activities.CommentTicket{Key: o.Ticket.Key, Notice: o.Waiting[0].Notice, Again: o.Waiting[0].Tried}
	if t.Fingerprint != "" {
		in.Occurrences = o.occurrences()
	}
	var told team.Ticket
	err := t.call(ctx, activities.CommentTicketName, in, &told)
	switch fault, said := faultOf(err); {
	case err == nil:
		t.knows(told)
		o.sent(workflow.Now(ctx))
	case !said || fault.Kind == team.Unclear:
		o.Waiting[0].Tried = true
	case fault.Kind == team.Gone && t.Fingerprint != "":
		o.Gone, o.Ticket.Key, o.Ticket.URL = o.Ticket.Key, "", ""
	case fault.Kind == team.Gone && workflow.Now(ctx).Sub(in.Notice.At) > goneLimit:
		o.sent(workflow.Now(ctx)) // nobody will ever read it
	}
	return err
}

// call has one try at an activity of [team.TicketQueue].
func (t *ticket) call(ctx workflow.Context, name activities.Name, in, out any) error {
	patience := pollerPatience
	if t.Outbox.Failed > 0 {
		patience = pollerPatienceMax
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              team.TicketQueue(t.Store),
		ScheduleToStartTimeout: patience,
		StartToCloseTimeout:    ticketCallLimit,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	return workflow.ExecuteActivity(ctx, string(name), in).Get(ctx, out)
}
