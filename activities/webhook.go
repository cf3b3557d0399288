package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// CallWebhookName hands a notice to the webhook, on [spec.WebhookQueue]; see
// [WebhookCalls.Call].
const CallWebhookName Name = "call-webhook"

// The types of the errors of a webhook call: it may be made again, or not.
const (
	WebhookUnreached = "WebhookUnreached"
	WebhookRefused   = "WebhookRefused"
)

// Webhook receives notices on what happens to sessions. Its errors are
// *session.WebhookTrouble.
type Webhook interface {
	// Deliver delivers a notice. A receiver that gets one twice knows it by its id.
	Deliver(ctx context.Context, n session.Notice) error
}

// WebhookCalls calls the webhook.
type WebhookCalls struct {
	Webhook Webhook
	// Observer records the outcomes of calls.
	Observer Observer
}

// Call tries once to hand over a notice. Its error says whether, and when, it makes
// sense to try again.
func (c *WebhookCalls) Call(ctx context.Context, n session.Notice) error {
	err := c.Webhook.Deliver(ctx, n)
	var trouble *session.WebhookTrouble
	switch {
	case err == nil:
		observerOrNone(c.Observer).OutsideCalled(WebhookReceiver, callDone)
		return nil
	case !errors.As(err, &trouble):
		return err
	case trouble.Final:
		observerOrNone(c.Observer).OutsideCalled(WebhookReceiver, callRefused)
		return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(trouble.Message, maxTrouble), WebhookRefused,
			temporal.ApplicationErrorOptions{NonRetryable: true})
	}
	observerOrNone(c.Observer).OutsideCalled(WebhookReceiver, string(session.Unreached))
	return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(trouble.Message, maxTrouble), WebhookUnreached,
		temporal.ApplicationErrorOptions{NextRetryDelay: trouble.RetryAfter.Std()})
}
