package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
)

// WebhookName is the wire name of [Webhook].
const WebhookName = "webhook"

// WebhookID returns the id of the workflow that delivers one notice to the webhook.
func WebhookID(store, notice string) string { return "webhook/" + store + "/" + notice }

// WebhookOf returns the workflow that delivers a notice to the webhook. Each notice id has one.
func WebhookOf(store string, n session.Notice) entityworkflow.Workflow {
	return entityworkflow.Workflow{
		ID: WebhookID(store, n.ID), Queue: spec.WorkflowQueue(store), Name: WebhookName, Input: WebhookInput{Store: store, Notice: n},
		Summary: webhookSummary(n),
	}
}

func webhookSummary(n session.Notice) string {
	return string(n.Event) + " of session " + n.Session
}

// How long, and how often, the delivery of a notice is tried.
const (
	webhookLimit     = 24 * time.Hour
	webhookCallLimit = 2 * time.Minute
	webhookFirstWait = 5 * time.Second
	webhookLastWait  = 5 * time.Minute
)

// WebhookInput is the input of [Webhook].
type WebhookInput struct {
	Store  string         `json:"store"`
	Notice session.Notice `json:"notice"`
}

// Webhook delivers one notice to the webhook, with retries for a day. It fails when the webhook
// refuses the notice, or when the day is over. Its failure has no effect on the notice's session.
func Webhook(ctx workflow.Context, in WebhookInput) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              spec.WebhookQueue(in.Store),
		ScheduleToCloseTimeout: webhookLimit,
		StartToCloseTimeout:    webhookCallLimit,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: webhookFirstWait, BackoffCoefficient: 2, MaximumInterval: webhookLastWait,
		},
		Summary: webhookSummary(in.Notice),
	})
	return workflow.ExecuteActivity(ctx, string(activities.CallWebhookName), in.Notice).Get(ctx, nil)
}
