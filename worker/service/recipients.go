package service

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/outside/jira"
	"github.com/maestro-hive/maestro/internal/outside/webhook"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
	"github.com/maestro-hive/maestro/workflows"
)

// Recipients passes notices to the workflows of one store that deliver them.
type Recipients struct {
	Temporal client.Client
	Store    string
}

// NotifyFailure takes a notice for the ticket of a failure.
func (r *Recipients) NotifyFailure(ctx context.Context, fingerprint string, n activities.TicketNotice) error {
	return r.notify(ctx, fingerprint, n, workflows.TicketInput{Store: r.Store, Fingerprint: fingerprint},
		"ticket of a failure of team "+n.Notice.Team)
}

// NotifyTicket takes a notice for the ticket with a key.
func (r *Recipients) NotifyTicket(ctx context.Context, key string, n activities.TicketNotice) error {
	return r.notify(ctx, key, n, workflows.TicketInput{Store: r.Store, Key: key}, "ticket "+key)
}

func (r *Recipients) notify(ctx context.Context, name string, n activities.TicketNotice, in workflows.TicketInput,
	summary string,
) error {
	w := entityworkflow.Workflow{
		ID: workflows.TicketID(r.Store, name), Queue: spec.WorkflowQueue(r.Store), Name: workflows.TicketName,
		Input: in, Summary: summary,
	}
	if err := entityworkflow.Update(ctx, r.Temporal, w, n.Notice.ID, workflows.NoticeUpdate, n, nil); err != nil {
		return fmt.Errorf("notify ticket %s: %w", name, err)
	}
	return nil
}

// NotifyWebhook starts the workflow that calls the webhook, once for each notice.
func (r *Recipients) NotifyWebhook(ctx context.Context, n session.Notice) error {
	return entityworkflow.Once(ctx, r.Temporal, workflows.WebhookOf(r.Store, n))
}

// callSlots is how many calls of Jira, and of the webhook, a worker makes at once.
const callSlots = 4

// notices makes the activity that takes notices.
func (w *Worker) notices(p *plan) *activities.Notices {
	return &activities.Notices{
		Recipients: &Recipients{Temporal: w.Connection, Store: w.store.ID()}, Mask: w.Mask, WebUI: p.webUI,
		Dashboard: func(ctx context.Context) string { return access.ServedAt(ctx, w.store.State) }, PullRequests: w.pullRequests,
		Where: fmt.Sprintf("--address %s --namespace %s --state-dir %s, as seen from %s", w.Connection.Address, w.Connection.Namespace,
			w.store.Dir(), w.Host),
	}
}

// pullRequests returns the addresses of a session's pull requests. A notice that cannot have them is sent without.
func (w *Worker) pullRequests(ctx context.Context, key session.Key) (addresses []string) {
	deliveries, err := w.store.State.Deliveries(ctx, key)
	if err != nil {
		w.Logger.Warn("a notice does not name the pull requests", "session", key.Session, "error", err)
	}
	for _, d := range deliveries {
		if d.URL != "" {
			addresses = append(addresses, d.URL)
		}
	}
	return addresses
}

// ticketQueue serves the calls of the ticket system.
func (w *Worker) ticketQueue(p *plan) *queue {
	q := w.callQueue(spec.TicketQueue(w.store.ID()), p)
	calls := func() *activities.TicketCalls {
		p := q.plan.Load() // which has a Jira, else the queue is not polled
		return &activities.TicketCalls{Tickets: p.tickets, IndexDelay: p.config.Jira.IndexDelay, Observer: w.recorder}
	}
	register(q, activities.FindTicketName, withNewest(calls, (*activities.TicketCalls).Find))
	register(q, activities.CreateTicketName, withNewest(calls, (*activities.TicketCalls).Create))
	register(q, activities.CommentTicketName, withNewest(calls, (*activities.TicketCalls).Comment))
	return q
}

// webhookQueue serves the calls of the webhook.
func (w *Worker) webhookQueue(p *plan) *queue {
	q := w.callQueue(spec.WebhookQueue(w.store.ID()), p)
	register(q, activities.CallWebhookName, func(ctx context.Context, n session.Notice) error {
		return (&activities.WebhookCalls{Webhook: q.plan.Load().hook, Observer: w.recorder}).Call(ctx, n)
	})
	return q
}

// Webhook returns a client of the webhook that a worker file names, with the address and the
// secret of the environment.
func Webhook(w agent.Webhook, getenv func(string) string, version string, clock func() time.Time) (*webhook.Client, error) {
	secret := ""
	if w.SecretEnv != "" {
		if secret = getenv(w.SecretEnv); secret == "" {
			return nil, fmt.Errorf("webhook.secret_env names %s, which is not set in the worker's environment", w.SecretEnv)
		}
	}
	client, err := webhook.New(webhook.Options{
		URL: getenv(w.URLEnv), Secret: secret, Timeout: w.Timeout.Std(), Version: version,
		Clock: clock,
	})
	if err != nil {
		return nil, fmt.Errorf("webhook.url_env names %s: %w", w.URLEnv, err)
	}
	return client, nil
}

// Jira returns a client of the Jira that a worker file names, with the credentials of
// the environment.
func Jira(j agent.Jira, getenv func(string) string, clock func() time.Time) (*jira.Client, error) {
	return jira.New(jira.Config{
		URL: j.URL, Deployment: jira.Deployment(j.Deployment), Email: getenv(j.EmailEnv), Token: getenv(j.TokenEnv),
		EmailEnv: j.EmailEnv, TokenEnv: j.TokenEnv, Timeout: j.Timeout.Std(), Now: clock,
	})
}
