// Package webhook hands notices to one address over HTTP. It knows no Temporal, and
// leaves trying again to others.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/httpclient"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

// The headers of a delivery besides those of HTTP.
const (
	// EventHeader has the notice's event, DeliveryHeader its id: whoever gets one
	// twice knows it by that.
	EventHeader    = "X-Maestro-Event"
	DeliveryHeader = "X-Maestro-Delivery"
	// SignatureHeader has "sha256=" and the body's HMAC-SHA256 in hex, where the
	// receiver's secret is configured.
	SignatureHeader = "X-Maestro-Signature"
)

// The bounds of what is sent and read, in bytes.
const (
	maxBody   = 256 * 1024
	maxAnswer = 64 * 1024
)

// Options say who is told, and how.
type Options struct {
	// URL is the receiver's address. It may be a secret, and shows in no error.
	URL string
	// Secret is the key of the signatures; empty: there are none.
	Secret string
	// Timeout bounds one delivery.
	Timeout time.Duration
	// Version is the build's, for the User-Agent.
	Version string
	// Clock tells the time, for waits that are given as a date.
	Clock func() time.Time
}

// Client hands over notices. It is safe for use by many at once.
type Client struct {
	options Options
	http    *http.Client
}

// New returns a client, or an error that says what is wrong with the options without
// showing them.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the webhook's address is not an http or https URL")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &Client{options: o, http: &http.Client{Transport: transport, Timeout: o.Timeout, CheckRedirect: httpclient.SameSite}}, nil
}

// Deliver hands over one notice, once. Its error is a *session.WebhookTrouble.
func (c *Client) Deliver(ctx context.Context, n session.Notice) error {
	body, err := encode(n)
	if err != nil {
		return final("the notice cannot be encoded: %s", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.options.URL, bytes.NewReader(body))
	if err != nil {
		return final("the webhook's address cannot be used")
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "maestro/"+c.options.Version)
	req.Header.Set(EventHeader, string(n.Event))
	req.Header.Set(DeliveryHeader, n.ID)
	if c.options.Secret != "" {
		mac := hmac.New(sha256.New, []byte(c.options.Secret))
		_, _ = mac.Write(body) // never fails
		req.Header.Set(SignatureHeader, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return &session.WebhookTrouble{Message: "the webhook cannot be reached: " + httpclient.NoAnswer(err, c.options.Timeout)}
	}
	defer answer.Body.Close()                                            //nolint:errcheck // nothing was written
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer+1)) // so that the connection can be used again
	return c.judge(answer)
}

// encode writes a notice as JSON, without the oldest attempts where it would be too long.
func encode(n session.Notice) ([]byte, error) {
	for {
		body, err := json.Marshal(n)
		if err != nil || len(body) <= maxBody {
			return body, err
		}
		if n.Request == nil || len(n.Request.Attempts) == 0 {
			return nil, fmt.Errorf("it is longer than %d bytes", maxBody)
		}
		shorter := *n.Request
		shorter.Attempts = shorter.Attempts[(len(shorter.Attempts)+1)/2:]
		n.Request = &shorter
	}
}

// retryable are the answers of 400 and above, besides those of a server's own failure,
// after which the same request may be taken.
var retryable = []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}

// maxWait bounds a wait that the receiver states: a notice is dropped after a day.
const maxWait = time.Hour

// judge says what an answer means.
func (c *Client) judge(answer *http.Response) error {
	status := answer.StatusCode
	said := fmt.Sprintf("the webhook answered %d %s", status, http.StatusText(status))
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 500 || slices.Contains(retryable, status):
		wait := min(retryafter.Parse(answer.Header, c.options.Clock()), maxWait)
		return &session.WebhookTrouble{Message: said, RetryAfter: textfmt.Duration(wait)}
	case status >= 300 && status < 400:
		return final("%s: set its final address in the variable named by `webhook.url_env`", said)
	}
	return final("%s; the notice is dropped: check the address in the variable named by `webhook.url_env`, and the receiver's log",
		said)
}

func final(format string, args ...any) error {
	return &session.WebhookTrouble{Message: fmt.Sprintf(format, args...), Final: true}
}
