package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/retryafter"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Fault is a provider's error.
type Fault struct {
	// Status is the HTTP status; 200 for an error in the middle of a stream.
	Status int
	// Type and Code are the provider's names for the error; empty if it has none.
	Type, Code string
	Message    string
	// Header is the header of the HTTP answer; nil: unknown.
	Header http.Header
	// Delay is the wait that the body asks for; zero: none.
	Delay time.Duration
	// Cut: the answer ended before it was complete.
	Cut bool
}

// ReadFault parses the body of an error in any of the formats. If the body has no known format,
// its text is the message.
func ReadFault(status int, header http.Header, body []byte) *Fault {
	f := &Fault{Status: status, Header: header}
	s := scanner{leaf: func(path string, l leaf) { f.take(path, l) }}
	s.write(body)
	s.end()
	if f.Message == "" && f.Type == "" && f.Code == "" {
		f.Message = textfmt.Shorten(string(body), session.MaxMessage)
	}
	return f
}

// take reads a value of an error's body. Gemini wraps errors of streams in a list.
func (f *Fault) take(path string, l leaf) {
	switch strings.TrimPrefix(path, "[].") {
	case "error.message", "error":
		f.Message = l.text()
	case "error.type", "error.status":
		f.Type = l.text()
	case "error.code":
		if l.quoted { // some servers have the status there
			f.Code = l.text()
		}
	case "error.details[].retryDelay":
		if d, err := time.ParseDuration(l.text()); err == nil && d > 0 {
			f.Delay = min(d, time.Duration(session.MaxRetryAfter))
		}
	}
}

// Error describes the fault.
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

// Failure classifies the error of a call: a *[Fault], a *[failures.Failure], an error of a JSON decoder,
// or one of the network. provider names the provider in messages; may be empty. now is needed for a
// wait that is given as a date.
func Failure(err error, provider string, now time.Time) *failures.Failure {
	who := "the provider"
	if provider != "" {
		who = "provider " + provider
	}
	var failure *failures.Failure
	if errors.As(err, &failure) {
		return failure
	}
	var fault *Fault
	if errors.As(err, &fault) {
		f := fault.failure(who)
		f.RetryAfter = textfmt.Duration(max(fault.Delay, retryafter.Parse(fault.Header, now)))
		return f
	}
	return failures.Failf(failures.APIError, "%s cannot be reached: %v", who, err)
}

// Broken converts an error of a JSON decoder that was reading an answer into a Fault. It returns
// other errors unchanged.
func Broken(err error) error {
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &shape) {
		return &Fault{Status: http.StatusOK, Message: "not a valid answer: " + err.Error()}
	}
	return err
}

// failure chooses the category. Errors that the same request would get again are final, so that
// no attempt is wasted on them.
func (f *Fault) failure(who string) *failures.Failure {
	final := func(format string, args ...any) *failures.Failure {
		failure := failures.Failf(failures.APIError, format, args...)
		failure.Final = true
		return failure
	}
	switch {
	case f.Cut:
		return failures.Failf(failures.APIError, "the answer of %s was incomplete: %v", who, f)
	case f.overflow():
		return failures.Failf(failures.ContextOverflow, "the conversation is too long for the model: %v", f)
	case f.named("insufficient_quota", "billing_error"), f.Status == http.StatusPaymentRequired, f.unpaid():
		return failures.Failf(failures.Auth, "%s reports a billing problem: %v", who, f)
	case f.Status == http.StatusTooManyRequests, f.named("rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"):
		return failures.Failf(failures.RateLimited, "%s limits the request rate: %v", who, f)
	case f.Status == http.StatusUnauthorized, f.Status == http.StatusForbidden, f.named("authentication_error", "permission_error"), f.badKey():
		return failures.Failf(failures.Auth, "%s refused the key: %v", who, f)
	case f.Status == http.StatusNotFound:
		return final("%s does not know the model or the path; fix model or base_url in the worker file: %v", who, f)
	case f.Status == http.StatusRequestTimeout, f.Status == http.StatusConflict, f.Status >= 500, f.Status == http.StatusOK, f.Status == 0:
		return failures.Failf(failures.APIError, "%s failed: %v", who, f)
	}
	return final("%s rejects the request: %v", who, f)
}

// unpaid reports whether the account has no credit left. Anthropic reports that as a bad request.
func (f *Fault) unpaid() bool {
	return strings.Contains(strings.ToLower(f.Message), "credit balance is too low")
}

// badKey reports whether Gemini rejects the key, which it does as a bad request.
func (f *Fault) badKey() bool {
	return f.Type == "INVALID_ARGUMENT" && strings.Contains(strings.ToLower(f.Message), "api key not valid")
}

func (f *Fault) named(names ...string) bool {
	for _, n := range names {
		if f.Type == n || f.Code == n {
			return true
		}
	}
	return false
}

// overflow reports whether the prompt is longer than the model's context window. Providers and
// compatible servers report that in many ways.
func (f *Fault) overflow() bool {
	if f.named("context_length_exceeded", "request_too_large") || f.Status == http.StatusRequestEntityTooLarge {
		return true
	}
	if f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity && !f.named("invalid_request_error") {
		return false
	}
	said := strings.ToLower(f.Message)
	for _, words := range []string{
		"prompt is too long", "context length", "context window", "context size", "maximum context", "exceed context limit", "input token count",
	} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

// Unbilled reports whether a failed call cannot have cost anything: it is [Unsent], or the
// provider rejected it before it began to answer.
func Unbilled(err error) bool {
	var fault *Fault
	if errors.As(err, &fault) {
		return fault.Status >= 300
	}
	var unsent Unsent
	return errors.As(err, &unsent)
}
