package llm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/retryafter"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Fault is a provider's answer that is no answer.
type Fault struct {
	// Status is the HTTP status; 200 for an error in the middle of a stream.
	Status int
	// Type and Code are the provider's names for the error, as far as it has them.
	Type, Code string
	Message    string
	// Header is that of the HTTP answer; nil: unknown.
	Header http.Header
	// Cut: the answer ended before it was complete.
	Cut bool
}

// Error makes a Fault an error.
func (f *Fault) Error() string {
	said := f.Message
	if said == "" {
		said = "no reason given"
	}
	name := f.Code
	if name == "" {
		name = f.Type
	}
	if name != "" {
		said = name + ": " + said
	}
	if f.Status != 0 && f.Status != http.StatusOK {
		return fmt.Sprintf("status %d: %s", f.Status, said)
	}
	return said
}

// errIdle stops a call in which nothing came in for too long.
var errIdle = errors.New("no data")

// failure says what the error of a call means. now is for a wait that ends at a
// date.
func failure(err error, now time.Time) *failures.Failure {
	var fault *Fault
	if errors.As(err, &fault) {
		f := fault.failure()
		f.RetryAfter = textfmt.Duration(retryafter.Parse(fault.Header, now))
		return f
	}
	return failures.Failf(failures.APIError, "the provider cannot be reached: %v", err)
}

// failure chooses the category. Errors that the same request would meet again
// are final, so that no attempt is spent on them.
func (f *Fault) failure() *failures.Failure {
	final := func(format string, args ...any) *failures.Failure {
		failure := failures.Failf(failures.APIError, format, args...)
		failure.Final = true
		return failure
	}
	switch {
	case f.Cut:
		return failures.Failf(failures.APIError, "the provider's answer was incomplete: %v", f)
	case f.overflow():
		return failures.Failf(failures.ContextOverflow, "the conversation is too long for the model: %v", f)
	case f.named("insufficient_quota", "billing_error"), f.Status == http.StatusPaymentRequired, f.unpaid():
		return failures.Failf(failures.Auth, "the provider reports a billing problem: %v", f)
	case f.Status == http.StatusTooManyRequests, f.named("rate_limit_error", "rate_limit_exceeded"):
		return failures.Failf(failures.RateLimited, "the provider limits the request rate: %v", f)
	case f.Status == http.StatusUnauthorized, f.Status == http.StatusForbidden, f.named("authentication_error", "permission_error"):
		return failures.Failf(failures.Auth, "the provider refused the key: %v", f)
	case f.Status == http.StatusNotFound:
		return final("the provider does not know the model or the path; fix model or base_url in the worker file: %v", f)
	case f.Status == http.StatusRequestTimeout, f.Status == http.StatusConflict, f.Status >= 500, f.Status == http.StatusOK, f.Status == 0:
		return failures.Failf(failures.APIError, "the provider failed: %v", f)
	}
	return final("the provider rejects the request: %v", f)
}

// unpaid reports whether the account has nothing left: Anthropic has no name for that
// but the one of a bad request.
func (f *Fault) unpaid() bool {
	return strings.Contains(strings.ToLower(f.Message), "credit balance is too low")
}

func (f *Fault) named(names ...string) bool {
	for _, n := range names {
		if f.Type == n || f.Code == n {
			return true
		}
	}
	return false
}

// overflow reports whether the prompt was longer than the model's window.
// Providers and servers that are compatible with them say it in many ways.
func (f *Fault) overflow() bool {
	if f.named("context_length_exceeded", "request_too_large") || f.Status == http.StatusRequestEntityTooLarge {
		return true
	}
	if f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity && !f.named("invalid_request_error") {
		return false
	}
	said := strings.ToLower(f.Message)
	for _, words := range []string{"prompt is too long", "context length", "context window", "context size", "maximum context", "exceed context limit"} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

// unbilled reports whether a call that failed can have cost nothing: nobody was
// reached, or the provider refused it before it began to answer.
func unbilled(err error) bool {
	var fault *Fault
	if errors.As(err, &fault) {
		return fault.Status >= 400
	}
	var dialling *net.OpError
	return errors.As(err, &dialling) && dialling.Op == "dial"
}

// ended is the reason for which a context ended: that of the attempt, or of the
// call alone.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
