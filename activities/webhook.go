package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// CallWebhookName delivers a notice to the webhook, on [spec.WebhookQueue]; see
// [WebhookCalls.Call].
const CallWebhookName Name = "call-webhook"

// The types of the errors of a webhook call: retryable, and not retryable.
const (
	WebhookUnreached = "WebhookUnreached"
	WebhookRefused   = "WebhookRefused"
)

// Webhook receives notices of events of sessions. Its errors are
// *session.WebhookTrouble.
type Webhook interface {
	// Deliver delivers a notice. The receiver recognises a repeated one by its id.
	Deliver(ctx context.Context, n session.Notice) error
}

// WebhookCalls calls the webhook.
type WebhookCalls struct {
	Webhook Webhook
	// Observer records the outcomes of calls.
	Observer Observer
}

// Call tries once to deliver a notice. The type of its error, and its retry delay, say
// whether and when to retry.
func (c *WebhookCalls) Call(ctx context.Context, n session.Notice) error {
	err := c.Webhook.Deliver(ctx, n)
	var trouble *session.WebhookTrouble
	switch {
	case err == nil:
		observerOrNone(c.Observer).ExternalCalled(WebhookReceiver, callDone)
		return nil
	case !errors.As(err, &trouble):
		return err
	case trouble.Final:
		observerOrNone(c.Observer).ExternalCalled(WebhookReceiver, callRefused)
		return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(trouble.Message, maxTrouble), WebhookRefused,
			temporal.ApplicationErrorOptions{NonRetryable: true})
	}
	observerOrNone(c.Observer).ExternalCalled(WebhookReceiver, string(session.Unreached))
	return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(trouble.Message, maxTrouble), WebhookUnreached,
		temporal.ApplicationErrorOptions{NextRetryDelay: trouble.RetryAfter.Std()})
}
