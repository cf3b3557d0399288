package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
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
		record, err := loadTicket.localFirst(ctx, t.name())
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
	_, err := saveTicket.localFirst(ctx, t.outbox.Record)
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
	err := t.call(ctx, activities.FindTicketName, activities.FindTicket{Project: o.How.Project, Label: TicketLabel(t.Fingerprint)},
		&found)
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
	err = t.call(ctx, activities.CreateTicketName, activities.CreateTicket{
		How: *o.How, Label: TicketLabel(t.Fingerprint),
		Notice: first,
	}, &created)
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
	in := session.TicketComment{
		Key: o.Record.Ticket.Key, Notice: first.Notice, Occurrences: first.Occurrences,
		Omitted: first.Omitted, Again: first.Tried,
	}
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

// The waits of a ticket's workflow.
const (
	// ticketCallLimit bounds one call of the ticket system. A worker that dies in
	// the middle of one goes unnoticed until then.
	ticketCallLimit = 2 * time.Minute
	// pollerTimeout is how long a call waits for a worker before the ticket says
	// that there is none; pollerTimeoutMax once it has said so.
	pollerTimeout    = time.Minute
	pollerTimeoutMax = 5 * time.Minute
	// firstWait doubles up to steadyWait; after patientTries tries in a row it
	// doubles on up to longWait.
	firstWait  = 5 * time.Second
	steadyWait = time.Minute
	longWait   = 5 * time.Minute
	// maxRetryAfter bounds a wait that the ticket system, or a proxy in front of it, asks for.
	maxRetryAfter = time.Hour
	patientTries  = 15
	// defaultIndexDelay is used where the worker does not say how long after its
	// creation a ticket may not be found.
	defaultIndexDelay = textfmt.Duration(2 * time.Minute)
	// searchWait is the wait between two searches for a ticket that may be there.
	searchWait = 5 * time.Second
	// goneLimit is how long a notice waits for a ticket that is not there, and that
	// nobody may make.
	goneLimit = 7 * 24 * time.Hour
)

// faultOf reads the ticket system's answer; said is false if it is not known what was done.
func faultOf(err error) (fault activities.TicketFault, said bool) {
	if queued(err) {
		return activities.TicketFault{Kind: session.Unreached, Message: fmt.Sprintf(
			"no worker has taken it up within %s; start one whose worker file has `jira`, with its credentials", pollerTimeout)}, true
	}
	return detail[activities.TicketFault](err, activities.TicketTroubled)
}

// queued reports whether an activity has never started.
func queued(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// noteOutcome notes the outcome of a try, and returns the wait before the next one.
func (t *ticket) noteOutcome(err error) time.Duration {
	o := &t.outbox
	switch {
	case err == nil:
		o.succeeded()
		return 0
	case errors.Is(err, errUnsure):
		o.Record.Kind, o.Failed = session.Unclear, 0
		o.Record.Ticket.Trouble = fmt.Sprintf("the answer to the creation of a ticket was lost; searching for the ticket until %s, "+
			"before another is made",
			o.Doubt.Add(o.IndexDelay.Std()).UTC().Format(time.TimeOnly+" MST"))
		return searchWait
	}
	fault, said := faultOf(err)
	if !said {
		fault = activities.TicketFault{
			Kind:    session.Unreached,
			Message: "a worker was lost in the middle of it, or the ticket system took too long; trying again",
		}
		if !o.Doubt.IsZero() || o.Pending[0].Tried {
			fault.Kind = session.Unclear
		}
	}
	o.Failed++
	o.Record.Kind, o.Record.Ticket.Trouble = fault.Kind, fault.Message
	switch {
	case queued(err):
		return 0 // the next try waits in the queue
	case fault.Kind == session.Misconfigured:
		return longWait
	case fault.Kind == session.Gone && t.Fingerprint != "":
		return firstWait
	case fault.Kind == session.Gone:
		return longWait
	case fault.Kind == session.Unclear && !o.Doubt.IsZero():
		return searchWait
	case fault.RetryAfter > 0:
		return min(fault.RetryAfter.Std(), maxRetryAfter)
	}
	return waitAfter(o.Failed)
}

// waitAfter is the wait after so many tries in a row that failed.
func waitAfter(failed int) time.Duration {
	wait, limit := firstWait, steadyWait
	for n := 1; n < failed && wait < longWait; n++ {
		if n >= patientTries {
			limit = longWait
		}
		wait = min(2*wait, limit)
	}
	return wait
}

// pause waits before the next try. A misconfiguration is also tried again when a notice
// comes, since its session's worker may have been reconfigured; anything, at the update
// retry.
func (t *ticket) pause(ctx workflow.Context, wait time.Duration) error {
	timed, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(timed, wait, workflow.TimerOptions{Summary: "before the next try"})
	return workflow.Await(ctx, func() bool {
		return timer.IsReady() || t.retryNow || t.noticed && t.outbox.Record.Kind == session.Misconfigured || t.continues(ctx)
	})
}
