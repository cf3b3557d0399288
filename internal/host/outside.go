package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/entity"
	"github.com/maestro-hive/maestro/internal/jira"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/webhook"
	"github.com/maestro-hive/maestro/workflows"
)

// Outside hands what people outside are told to the workflows of one store that tell
// them.
type Outside struct {
	Temporal client.Client
	Store    string
}

// TellFailure tells the ticket of a failure.
func (o *Outside) TellFailure(ctx context.Context, fingerprint string, t activities.Telling) error {
	return o.tell(ctx, fingerprint, t, workflows.TicketInput{Store: o.Store, Fingerprint: fingerprint},
		"ticket of a failure of team "+t.Notice.Team)
}

// TellTicket tells the ticket with a key.
func (o *Outside) TellTicket(ctx context.Context, key string, t activities.Telling) error {
	return o.tell(ctx, key, t, workflows.TicketInput{Store: o.Store, Key: key}, "ticket "+key)
}

func (o *Outside) tell(ctx context.Context, name string, t activities.Telling, in workflows.TicketInput, summary string) error {
	w := entity.Workflow{
		ID: workflows.TicketID(o.Store, name), Queue: team.WorkflowQueue(o.Store), Name: workflows.TicketName,
		Input: in, Summary: summary,
	}
	if err := entity.Update(ctx, o.Temporal, w, t.Notice.ID, workflows.TellUpdate, t, nil); err != nil {
		return fmt.Errorf("tell ticket %s: %w", name, err)
	}
	return nil
}

// TellWebhook starts what hands the notice over, once and for all.
func (o *Outside) TellWebhook(ctx context.Context, n team.Notice) error {
	_, err := o.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflows.WebhookID(o.Store, n.ID), TaskQueue: team.WorkflowQueue(o.Store),
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowTaskTimeout:      entity.WorkflowTaskTimeout,
		StaticSummary:            fmt.Sprintf("%s of session %s", n.Event, n.Session),

		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, workflows.WebhookName, workflows.WebhookInput{Store: o.Store, Notice: n})
	var exists *serviceerror.WorkflowExecutionAlreadyStarted
	if err == nil || errors.As(err, &exists) {
		return nil
	}
	return fmt.Errorf("start the webhook's workflow: %w", err)
}

// ReadTicket returns what the store's workflow of a ticket shows: that of a failure, by
// its fingerprint, or one with a key; false where there is none.
func ReadTicket(ctx context.Context, c client.Client, store, name string) (view workflows.TicketView, ok bool, err error) {
	ok, err = entity.Memo(ctx, c, workflows.TicketID(store, name), workflows.MemoTicket, &view)
	return view, ok, err
}

// How many calls a worker makes side by side of those outside.
const (
	ticketSlots  = 4
	webhookSlots = 4
)

// registerTelling has the workflow queue serve what tells people.
func (w *Worker) registerTelling(q *queue) {
	q.RegisterWorkflowWithOptions(workflows.Ticket, workflow.RegisterOptions{Name: workflows.TicketName})
	q.RegisterWorkflowWithOptions(workflows.Webhook, workflow.RegisterOptions{Name: workflows.WebhookName})
	register(q, activities.NotifyName, newest(func() *activities.Notices { return w.notices(q.plan.Load()) }, (*activities.Notices).Notify))
}

// notices hands over what happens to sessions.
func (w *Worker) notices(p *plan) *activities.Notices {
	o := w.options
	return &activities.Notices{
		Outside: &Outside{Temporal: o.Client, Store: o.Store.ID()}, Mask: w.Mask, WebUI: p.webUI,
		Where: fmt.Sprintf("--address %s --namespace %s --state-dir %s, as seen from %s", o.Address, o.Namespace, o.Store.Dir(), o.Host),
	}
}

// ticketQueue serves the calls of the ticket system.
func (w *Worker) ticketQueue(p *plan) *queue {
	q := w.callQueue(team.TicketQueue(w.options.Store.ID()), ticketSlots, p)
	calls := func() *activities.TicketCalls {
		p := q.plan.Load()
		return &activities.TicketCalls{Tickets: p.tickets, IndexDelay: p.indexDelay(), Observer: w.options.observer()}
	}
	register(q, activities.FindTicketName, newest(calls, (*activities.TicketCalls).Find))
	register(q, activities.CreateTicketName, newest(calls, (*activities.TicketCalls).Create))
	register(q, activities.CommentTicketName, newest(calls, (*activities.TicketCalls).Comment))
	return q
}

// webhookQueue serves the calls of the webhook.
func (w *Worker) webhookQueue(p *plan) *queue {
	q := w.callQueue(team.WebhookQueue(w.options.Store.ID()), webhookSlots, p)
	register(q, activities.CallWebhookName, func(ctx context.Context, n team.Notice) error {
		return (&activities.WebhookCalls{Webhook: q.plan.Load().hook, Observer: w.options.observer()}).Call(ctx, n)
	})
	return q
}

// outside makes what talks to those outside, as far as the worker file names them.
func (s Setup) outside(cfg agent.Config) (tickets activities.Tickets, hook activities.Webhook, err error) {
	if cfg.Jira != nil {
		if tickets, err = Jira(*cfg.Jira, s.Getenv, s.Clock); err != nil {
			return nil, nil, fmt.Errorf("worker file: jira: %w", err)
		}
	}
	if cfg.Webhook != nil {
		secret := ""
		if cfg.Webhook.SecretEnv != "" {
			if secret = s.Getenv(cfg.Webhook.SecretEnv); secret == "" {
				return nil, nil, fmt.Errorf("worker file: webhook.secret_env names %s, which is not set in the worker's environment", cfg.Webhook.SecretEnv)
			}
		}
		hook, err = webhook.New(webhook.Options{
			URL: s.Getenv(cfg.Webhook.URLEnv), Secret: secret, Timeout: cfg.Webhook.Timeout.Std(), Version: s.Version, Clock: s.Clock,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("worker file: webhook.url_env names %s: %w", cfg.Webhook.URLEnv, err)
		}
	}
	return tickets, hook, nil
}

// Jira returns a client of the Jira that a worker file names, with the credentials of
// the environment.
func Jira(j agent.Jira, getenv func(string) string, clock func() time.Time) (*jira.Client, error) {
	email := ""
	if j.EmailEnv != "" {
		email = getenv(j.EmailEnv)
	}
	return jira.New(jira.Config{
		URL: j.URL, Deployment: jira.Deployment(j.Deployment), Email: email, Token: getenv(j.TokenEnv),
		EmailEnv: j.EmailEnv, TokenEnv: j.TokenEnv, Timeout: j.Timeout.Std(), Now: clock,
	})
}
