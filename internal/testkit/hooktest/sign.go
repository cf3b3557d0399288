// Package hooktest signs calls of hooks, as those do that call them.
package hooktest

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
)

// Sign returns the headers of a call that is signed as Standard Webhooks says. Goroutines may call it, too.
func Sign(t testing.TB, secret, id string, at time.Time, body []byte) http.Header {
	t.Helper()
	key, err := standardwebhooks.NewWebhook(secret)
	if !assert.NoError(t, err) {
		return nil
	}
	signature, err := key.Sign(id, at, body)
	assert.NoError(t, err)
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("webhook-signature", signature)
	return h
}
