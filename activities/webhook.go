package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/team"
)

// CallWebhookName hands a notice to the webhook, on [team.WebhookQueue]; see
// [WebhookCalls.Call].
const CallWebhookName Name = "call-webhook"

// The types of the errors of a webhook call: it may be made again, or not.
const (
	WebhookUnreached = "WebhookUnreached"
	WebhookRefused   = "WebhookRefused"
)

// Webhook is whoever wants to hear what happens to sessions. Its errors are
// *team.WebhookTrouble.
type Webhook interface {
	// Deliver hands over a notice. A receiver that hears one twice knows it by its id.
	Deliver(ctx context.Context, n team.Notice) error
}

// WebhookCalls calls the webhook.
type WebhookCalls struct {
	Webhook Webhook
	// Observer hears what calls come to.
	Observer Observer
}

// Call tries once to hand over a notice. Its error says whether, and when, it makes
// sense to try again.
func (c *WebhookCalls) Call(ctx context.Context, n team.Notice) error {
	err := c.Webhook.Deliver(ctx, n)
	var trouble *team.WebhookTrouble
	switch {
	case err == nil:
		observed(c.Observer).OutsideCalled(WebhookReceiver, callDone)
		return nil
	case !errors.As(err, &trouble):
		return err
	case trouble.Final:
		observed(c.Observer).OutsideCalled(WebhookReceiver, callRefused)
		return temporal.NewApplicationErrorWithOptions(team.Shorten(trouble.Message, maxTrouble), WebhookRefused,
			temporal.ApplicationErrorOptions{NonRetryable: true})
	}
	observed(c.Observer).OutsideCalled(WebhookReceiver, string(team.Unreached))
	return temporal.NewApplicationErrorWithOptions(team.Shorten(trouble.Message, maxTrouble), WebhookUnreached,
		temporal.ApplicationErrorOptions{NextRetryDelay: trouble.RetryAfter.Std()})
}
