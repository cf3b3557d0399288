package wire

import (
	"encoding/json"
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

// Refuse returns the provider's own error response for a refusal. wait is when to retry; zero if that is not known.
func (a API) Refuse(why Refusal, message string, wait time.Duration) (status int, header http.Header, body []byte) {
	d := a.described()
	w := d.refusals[why]
	header = http.Header{"Content-Type": {"application/json"}}
	again := why == RateLimited || why == Overloaded
	// The libraries of Anthropic and OpenAI follow this header.
	header.Set("X-Should-Retry", strconv.FormatBool(again))
	if again && wait > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10))
	}
	body, _ = json.Marshal(d.errorBody(w, message, wait)) // texts and numbers only
	return w.status, header, body
}

// RefuseInStream returns the error as an event in a stream that has begun.
func (a API) RefuseInStream(to Format, why Refusal, message string) []byte {
	d, f := a.described(), formats[to]
	w := d.refusals[why]
	document := d.errorBody(w, message, 0)
	if f.streamErrorBody != nil {
		document = f.streamErrorBody(w, message)
	}
	body, _ := json.Marshal(document) // texts and numbers only
	return []byte(f.streamErrorName + "data: " + string(body) + "\n\n")
}

// BreaksOff reports whether a connection has to break off after an error in a stream, because programs take the error
// for the end.
func (f Format) BreaksOff() bool { return formats[f].breaksOff }
