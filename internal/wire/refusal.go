package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Refusal is the reason why the gateway rejects a call itself.
type Refusal int

// The refusals.
const (
	// BudgetSpent: the budget cannot pay for the call. Programs do not retry.
	BudgetSpent Refusal = iota
	// RateLimited and Overloaded: the call may succeed later.
	RateLimited
	Overloaded
	// Unauthorized: the token is not valid.
	Unauthorized
	// NotFound: there is nothing at the path.
	NotFound
	// Invalid: the request is not one that the provider takes.
	Invalid
	// TooLarge: the request is too large.
	TooLarge
)

// words are a provider's words for a refusal.
type words struct {
	status int
	kind   string
}

// refusals are the words of each provider, in the order of the constants.
var refusals = map[API][]words{
	Anthropic: {
		{http.StatusPaymentRequired, "billing_error"},
		{http.StatusTooManyRequests, "rate_limit_error"},
		{529, "overloaded_error"},
		{http.StatusUnauthorized, "authentication_error"},
		{http.StatusNotFound, "not_found_error"},
		{http.StatusBadRequest, "invalid_request_error"},
		{http.StatusRequestEntityTooLarge, "request_too_large"},
	},
	OpenAI: {
		{http.StatusTooManyRequests, "insufficient_quota"},
		{http.StatusTooManyRequests, "rate_limit_exceeded"},
		{http.StatusServiceUnavailable, "server_is_overloaded"},
		{http.StatusUnauthorized, "invalid_api_key"},
		{http.StatusNotFound, "not_found"},
		{http.StatusBadRequest, "invalid_request_error"},
		{http.StatusRequestEntityTooLarge, "request_too_large"},
	},
	// Programs retry a 429. So a spent budget gets Gemini's error for an account without billing.
	Gemini: {
		{http.StatusBadRequest, "FAILED_PRECONDITION"},
		{http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"},
		{http.StatusServiceUnavailable, "UNAVAILABLE"},
		{http.StatusUnauthorized, "UNAUTHENTICATED"},
		{http.StatusNotFound, "NOT_FOUND"},
		{http.StatusBadRequest, "INVALID_ARGUMENT"},
		{http.StatusRequestEntityTooLarge, "INVALID_ARGUMENT"},
	},
}

// Refuse returns the provider's own error response for a refusal. wait is when to retry; zero:
// unknown.
func (a API) Refuse(why Refusal, message string, wait time.Duration) (status int, header http.Header, body []byte) {
	w := refusals[a][why]
	header = http.Header{"Content-Type": {"application/json"}}
	again := why == RateLimited || why == Overloaded
	// The libraries of Anthropic and OpenAI follow this header.
	header.Set("X-Should-Retry", strconv.FormatBool(again))
	if again && wait > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10))
	}
	return w.status, header, a.errorBody(w, message, wait)
}

// RefuseInStream returns the error as an event in a stream that has begun.
func (a API) RefuseInStream(to Format, why Refusal, message string) []byte {
	name := "event: error\n"
	if to == ChatCompletions || to == GenerateContent { // their events have no names
		name = ""
	}
	w := refusals[a][why]
	body := a.errorBody(w, message, 0)
	if to == Responses {
		body, _ = json.Marshal(map[string]any{"type": "error", "code": w.kind, "message": message, "param": nil}) // texts only
	}
	return []byte(name + "data: " + string(body) + "\n\n")
}

func (a API) errorBody(w words, message string, wait time.Duration) []byte {
	var document any
	switch a {
	case Anthropic:
		document = map[string]any{"type": "error", "error": map[string]any{"type": w.kind, "message": message}}
	case OpenAI:
		document = map[string]any{"error": map[string]any{"message": message, "type": w.kind, "param": nil, "code": w.kind}}
	case Gemini:
		e := map[string]any{"code": w.status, "message": message, "status": w.kind}
		if wait > 0 {
			e["details"] = []any{map[string]any{
				"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%gs", math.Ceil(wait.Seconds())),
			}}
		}
		document = map[string]any{"error": e}
	}
	body, _ := json.Marshal(document) // texts and numbers only
	return body
}
