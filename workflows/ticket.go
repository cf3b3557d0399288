package workflows

import (
	"cmp"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// TicketName is the wire name of [Ticket].
const TicketName = "ticket"

// The activities that read and write a ticket's record.
var (
	loadTicket = newStub(activities.LoadTicketName, (*activities.TicketRecords).Load)
	saveTicket = newStubNoResult(activities.SaveTicketName, (*activities.TicketRecords).Save)
)

// TicketID returns the workflow id of a ticket: name is the fingerprint of a failure, or the
// key of an existing ticket. All sessions of a store share it.
func TicketID(store, name string) string { return "ticket/" + store + "/" + name }

// TicketLabel is the label that the ticket of a failure carries.
func TicketLabel(fingerprint string) string { return spec.TicketLabelPrefix + fingerprint }

// The updates and the query of a ticket.
const (
	// NoticeUpdate takes an [activities.TicketNotice], RetryUpdate nothing. Both answer
	// with a [TicketView], at once.
	NoticeUpdate = "notice"
	RetryUpdate  = "retry"
	// TicketQuery answers with a [TicketView].
	TicketQuery = "ticket"
)

// MemoTicket is the memo key of a ticket's [TicketView].
const MemoTicket = "ticket"

// TicketState says whether a ticket is up to date.
type TicketState string

// The states of a ticket.
const (
	// TicketCurrent: it has every notice.
	TicketCurrent TicketState = "current"
	// TicketPending: a notice is on its way to it.
	TicketPending TicketState = "pending"
	// TicketInTrouble: the last try has failed, and is repeated.
	TicketInTrouble TicketState = "trouble"
)

// TicketView is the visible state of a ticket.
type TicketView struct {
	session.Ticket
	State TicketState `json:"state"`
	// Kind is the kind of the trouble, if there is one.
	Kind session.TroubleKind `json:"kind,omitempty"`
	// Waiting is how many notices the ticket does not have yet.
	Waiting int `json:"waiting,omitempty"`
}

// TicketInput is what a ticket's workflow starts from, and continues as new with.
type TicketInput struct {
	Store string `json:"store"`
	// Fingerprint names the failure whose ticket it is; empty if the ticket exists
	// already, under Key, and is never created.
	Fingerprint string `json:"fingerprint,omitempty"`
	Key         string `json:"key,omitempty"`
	// Outbox is what an earlier run continues with; nil if the store has the record.
	Outbox *Outbox `json:"outbox,omitempty"`
}

// Ticket keeps one ticket up to date with the notices of sessions.
//
// A notice whose update was acknowledged reaches the ticket once and in order, however
// long the ticket system is away and whatever is killed meanwhile; of more than 50 that
// wait for it, the later ones reach it as a number. A notice counts once, however often
// it is sent, also to a later run. A ticket is created only after a search has not found
// one; when it is not known whether one was created, only after a search that a new
// ticket cannot have escaped.
//
// The workflow completes when the ticket has every notice and every session that waits
// for a person knows the ticket. The store keeps the record from which the next notice
// starts it again.
func Ticket(ctx workflow.Context, in TicketInput) error {
	t := &ticket{TicketInput: in}
	if err := t.handle(ctx); err != nil {
		return err
	}
	if err := t.load(ctx); err != nil {
		return err
	}
	workflow.Go(ctx, t.notifyFollowers)
	for !t.continues(ctx) {
		if err := t.deliver(ctx); err != nil {
			return err
		}
		err := workflow.Await(ctx, func() bool { return len(t.outbox.Pending) > 0 || t.idle(ctx) || t.continues(ctx) })
		if err != nil {
			return err
		}
		if !t.idle(ctx) {
			continue
		}
		if err := t.save(ctx); err != nil {
			return err
		}
		if t.idle(ctx) && !t.changed {
			return nil
		}
	}
	t.Outbox = &t.outbox
	return workflow.NewContinueAsNewError(ctx, TicketName, t.TicketInput)
}

// ticket is a running one.
type ticket struct {
	TicketInput
	outbox Outbox
	// loaded: the outbox has what the store has of the ticket. changed: it has more.
	loaded, changed bool
	// shown is what the memo has.
	shown TicketView
	// signalling: a session is being notified.
	signalling bool
	// retryNow: a person wants the next try at once. noticed: a notice has come.
	retryNow, noticed bool
}

// name names the ticket among those of the store.
func (t *ticket) name() string { return cmp.Or(t.Fingerprint, t.Key) }

// load takes over the outbox of an earlier run, or what the store has of the ticket.
func (t *ticket) load(ctx workflow.Context) error {
	if t.Outbox != nil {
		t.outbox, t.Outbox = *t.Outbox, nil
		t.shown = t.outbox.view()
	} else {
		record, err := loadTicket.atBoundary(ctx, t.name())
		if err != nil {
			return err
		}
		t.outbox.Record = record
	}
	if t.Fingerprint == "" {
		t.outbox.Record.Ticket.Key = t.Key
	}
	t.loaded = true
	return nil
}

// save writes the ticket's record to the store, for its next run.
func (t *ticket) save(ctx workflow.Context) error {
	t.changed = false
	t.outbox.Record.Revision++
	_, err := saveTicket.atBoundary(ctx, t.outbox.Record)
	return err
}

// idle reports whether there is nothing left to do.
func (t *ticket) idle(ctx workflow.Context) bool {
	return len(t.outbox.Pending) == 0 && t.outbox.toNotify() == nil && !t.signalling && workflow.AllHandlersFinished(ctx)
}

// continues reports whether it is time to continue as new, and nothing is under way.
func (t *ticket) continues(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx) && !t.signalling
}

func (t *ticket) handle(ctx workflow.Context) error {
	err := workflow.SetQueryHandlerWithOptions(ctx, TicketQuery, func() (TicketView, error) { return t.outbox.view(), nil },
		workflow.QueryHandlerOptions{Description: "The ticket, whether it is up to date, and what is in the way."})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, NoticeUpdate, t.accept, workflow.UpdateHandlerOptions{
		Validator: t.validate, Description: "Adds a notice of a session to the ticket; sent by workers.",
	})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, RetryUpdate, t.retry, workflow.UpdateHandlerOptions{
		Description: "Tries at once what waits for the next try, after something was mended. It takes no argument.",
	})
}

func (t *ticket) accept(ctx workflow.Context, in activities.TicketNotice) (TicketView, error) {
	if err := workflow.Await(ctx, func() bool { return t.loaded }); err != nil {
		return t.shown, err
	}
	t.outbox.accept(in, t.Fingerprint != "")
	t.noticed, t.changed = true, true
	err := t.show(ctx)
	return t.shown, err
}

func (t *ticket) retry(workflow.Context) (TicketView, error) {
	t.retryNow = true
	return t.outbox.view(), nil
}

// validate rejects an incomplete notice.
func (t *ticket) validate(in activities.TicketNotice) error {
	why := ""
	switch {
	case in.Notice.ID == "" || in.Notice.Session == "":
		why = "it has no id, or names no session"
	case t.Fingerprint != "" && in.Jira == nil && t.outbox.How == nil:
		why = "it does not say how the ticket is created"
	default:
		return nil
	}
	return temporal.NewApplicationErrorWithOptions("notice rejected: "+why, "InvalidNotice",
		temporal.ApplicationErrorOptions{NonRetryable: true})
}

// show updates the memo.
func (t *ticket) show(ctx workflow.Context) error {
	view := t.outbox.view()
	if view == t.shown {
		return nil
	}
	t.shown = view
	return workflow.UpsertMemo(ctx, map[string]any{MemoTicket: view})
}

// notifyFollowers signals changes of the ticket to every session that waits for a person.
// A session that has ended is dropped.
func (t *ticket) notifyFollowers(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, func() bool { return t.outbox.toNotify() != nil }) != nil {
			return
		}
		f := t.outbox.toNotify()
		f.Notified = t.outbox.state()
		sessionID, news := f.Session, TicketNews{Request: f.Request, Ticket: t.outbox.Record.Ticket}
		t.signalling = true
		if err := workflow.SignalExternalWorkflow(ctx, sessionID, "", TicketSignal, news).Get(ctx, nil); err != nil {
			t.outbox.unfollow(sessionID)
		}
		t.signalling = false
	}
}

// deliver tries once to deliver the first pending notice, and waits if that fails.
func (t *ticket) deliver(ctx workflow.Context) error {
	if len(t.outbox.Pending) == 0 {
		return nil
	}
	t.noticed, t.retryNow = false, false
	var err error
	if t.outbox.Record.Ticket.Key == "" {
		err = t.findOrCreate(ctx)
	} else {
		err = t.comment(ctx)
	}
	if temporal.IsCanceledError(err) {
		return err
	}
	wait := t.noteOutcome(err)
	if err := t.show(ctx); err != nil || wait == 0 {
		return err
	}
	return t.pause(ctx, wait)
}

// errUnsure: the search has not found a ticket that may exist.
var errUnsure = errors.New("it is not known whether there is a ticket")

// findOrCreate finds the failure's ticket, or creates one from the first pending notice.
func (t *ticket) findOrCreate(ctx workflow.Context) error {
	o, began := &t.outbox, workflow.Now(ctx)
	var found activities.FoundTicket
	err := t.call(ctx, activities.FindTicketName, activities.FindTicket{Project: o.How.Project, Label: TicketLabel(t.Fingerprint)}, &found)
	if err != nil {
		return err
	}
	o.IndexDelay = cmp.Or(found.IndexDelay, defaultIndexDelay)
	first := o.Pending[0].Notice
	switch {
	case found.Found && found.Ticket.Key != o.Record.Deleted:
		t.setTicket(found.Ticket)
		if !o.Doubt.IsZero() { // it was created from the first notice
			o.Doubt = time.Time{}
			o.delivered()
		}
		return nil
	case began.Before(o.Doubt.Add(o.IndexDelay.Std())):
		return errUnsure
	case !first.Asks():
		o.delivered() // this event needs no ticket
		return nil
	}
	var created session.Ticket
	err = t.call(ctx, activities.CreateTicketName, activities.CreateTicket{How: *o.How, Label: TicketLabel(t.Fingerprint), Notice: first}, &created)
	switch fault, said := faultOf(err); {
	case err == nil:
		t.setTicket(created)
		o.Doubt = time.Time{}
		o.delivered()
	case !said || fault.Kind == session.Unclear:
		o.Pending[0].Tried, o.Doubt = true, workflow.Now(ctx)
	}
	return err
}

// setTicket notes which ticket it is.
func (t *ticket) setTicket(found session.Ticket) {
	t.outbox.Record.Ticket.Key, t.outbox.Record.Ticket.URL = found.Key, found.URL
}

// comment adds the first pending notice to the ticket.
func (t *ticket) comment(ctx workflow.Context) error {
	o := &t.outbox
	first := o.Pending[0]
	in := session.TicketComment{Key: o.Record.Ticket.Key, Notice: first.Notice, Occurrences: first.Occurrences, Omitted: first.Omitted, Again: first.Tried}
	var commented session.Ticket
	err := t.call(ctx, activities.CommentTicketName, in, &commented)
	switch fault, said := faultOf(err); {
	case err == nil:
		t.setTicket(commented)
		o.delivered()
	case !said || fault.Kind == session.Unclear:
		o.Pending[0].Tried = true
	case fault.Kind == session.Gone && t.Fingerprint != "":
		o.Record.Deleted = o.Record.Ticket.Key
		t.setTicket(session.Ticket{})
	case fault.Kind == session.Gone && workflow.Now(ctx).Sub(in.Notice.At) > goneLimit:
		o.delivered() // the ticket does not exist
	}
	return err
}

// call executes one try of an activity of [spec.TicketQueue].
func (t *ticket) call(ctx workflow.Context, name activities.Name, in, out any) error {
	timeout := pollerTimeout
	if t.outbox.Failed > 0 {
		timeout = pollerTimeoutMax
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              spec.TicketQueue(t.Store),
		ScheduleToStartTimeout: timeout,
		StartToCloseTimeout:    ticketCallLimit,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	return workflow.ExecuteActivity(ctx, string(name), in).Get(ctx, out)
}
