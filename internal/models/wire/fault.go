package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

// Fault is a provider's error.
type Fault struct {
	// Status is the HTTP status; 200 for an error in the middle of a stream.
	Status int
	// Number is the status that the body states; zero: none.
	Number int
	// Type and Code are the provider's names for the error; empty if it has none. Names are those of other places: of
	// the provider behind a proxy, for example.
	Type, Code string
	Names      []string
	// Param is the field of the request that the error is about; empty: unknown.
	Param   string
	Message string
	// Header is the header of the HTTP answer; nil: unknown.
	Header http.Header
	// Wait is the wait that the body asks for, as [retryafter.Value] reads it; empty: none.
	Wait string
	// Cut: the answer ended before it was complete.
	Cut bool
	// NoAnswer: what came is not an answer of the provider's API, but for example the page of a proxy.
	NoAnswer bool
}

// maxError bounds the body of an error, and maxSecret a secret in it, in bytes.
const maxError, maxSecret = 64 << 10, 16 << 10

// FaultOf reads and closes an answer that is an error. It returns the body, in which mask has replaced secrets; nil if the
// answer leads elsewhere or has no content.
func FaultOf(response *http.Response, mask func(string) string) (f *Fault, body []byte) {
	body, _ = io.ReadAll(io.LimitReader(response.Body, maxError+maxSecret)) // a part is enough
	_ = response.Body.Close()
	if response.StatusCode < http.StatusBadRequest { // below 300, the model may have answered
		return &Fault{Status: response.StatusCode, Message: "it redirects or answers without content; set base_url to its address"}, nil
	}
	body = []byte(mask(string(body)))
	body = body[:min(len(body), maxError)] // without a part of a secret at its end
	return ReadFault(response.StatusCode, response.Header, body), body
}

// ReadFault parses the body of an error in any of the formats. If the body has no known format,
// its text is the message.
func ReadFault(status int, header http.Header, body []byte) *Fault {
	f := &Fault{Status: status, Header: header}
	if text := bytes.TrimSpace(body); isPage(header.Get("Content-Type"), text) {
		f.NoAnswer, f.Message = true, page(text)
		return f
		// an edge's text, like Cloudflare's "error code: 1020"
	} else if status == http.StatusForbidden && len(text) > 0 && !strings.ContainsRune("{[\"", rune(text[0])) {
		f.NoAnswer, f.Message = true, textfmt.Shorten(string(text), session.MaxMessage)
		return f
	}
	f.Names = append(f.Names, header.Get("X-Amzn-Errortype"))
	scan(body, f.take)
	f.readQuoted() // proxies quote the error of the provider behind them
	if f.Message == "" && f.Type == "" && f.Code == "" {
		f.Message = textfmt.Shorten(string(body), session.MaxMessage)
	}
	return f
}

// readQuoted reads the document within the message.
func (f *Fault) readQuoted() {
	if begin := strings.IndexByte(f.Message, '{'); begin >= 0 {
		inner := Fault{}
		scan([]byte(f.Message[begin:]), inner.take)
		f.Names = append(f.Names, inner.Type, inner.Code)
	}
}

// take reads a value of an error's body. Gemini wraps errors of streams in a list; vLLM, FastAPI and
// others have the message at the top; OpenRouter has the words of the provider behind it apart.
func (f *Fault) take(path string, l leaf) {
	path = strings.TrimPrefix(path, "[].")
	switch strings.TrimPrefix(path, "error.") {
	case "message", "error", "detail", "detail[].msg", "msg", "error_msg", "error_message", "errors[].message", "error_description",
		"base_resp.status_msg":
		if l.quoted && (f.Message == "" || path == "error.message") {
			f.Message = l.text()
		}
	case "metadata.raw", "innererror.message":
		if text := l.text(); l.quoted && text != "" {
			f.Message = strings.TrimPrefix(f.Message+": "+text, ": ")
		}
	case "innererror.code", "details[].reason", "provider_specific_fields.innererror.code":
		if l.quoted {
			f.Names = append(f.Names, l.text())
		}
	case "param":
		if l.quoted && !strings.EqualFold(l.text(), "none") { // what LiteLLM writes
			f.Param = l.text()
		}
	case "metadata.flagged_input": // OpenRouter's moderation
		f.Names = append(f.Names, "content_filter")
	case "type", "status", "__type":
		if l.quoted && l.text() != "error" { // what Anthropic calls every error
			f.Type = l.text()
		}
	case "base_resp.status_code": // MiniMax
		f.Code, f.Names = l.text(), append(f.Names, miniMax[l.text()])
	case "code", "error_code":
		f.named(l)
	default:
		if m := waitName.FindStringSubmatch(path[strings.LastIndexByte(path, '.')+1:]); m != nil && l.number() != 0 {
			f.Wait = l.text() + m[1]
		}
	}
}

// waitName matches the names of a wait or of the time of its end, with a unit that is not seconds: retryDelay,
// retry_after, resets_in_seconds, resets_at, X-RateLimit-Reset.
var waitName = regexp.MustCompile(`(?i)^(?:x-?ratelimit-?)?(?:retry|resets?)[_-]?(?:after|delay|in|at)?[_-]?(?:seconds?|secs?|(ms))?$`)

// named reads a code, which is a name, or the status as a number or as text.
func (f *Fault) named(l leaf) {
	if n := l.number(); n >= 100 && n <= 599 {
		f.Number = int(n)
	} else if l.quoted {
		f.Code = l.text()
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
	if status := f.status(); status != 0 && status != http.StatusOK {
		return fmt.Sprintf("status %d: %s", status, said)
	}
	return said
}

// Failure classifies the error of a call: a *[Fault], a *[failures.Failure],
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
		if f.MayPass() {
			f.RetryAfter = textfmt.Duration(max(retryafter.Value(fault.Wait, now), retryafter.Parse(fault.Header, now),
				retryafter.InText(fault.Message, now)))
		}
		return f
	}
	return failures.Failf(failures.APIError, "%s cannot be reached: %v", who, err)
}

// Unbilled reports whether a failed call without content cannot have cost anything: it is [Unsent], or the
// provider rejected it before it began to answer, which an answer with status 200 may say, too.
func Unbilled(err error) bool {
	var fault *Fault
	if errors.As(err, &fault) {
		said := fault.failure("").Category
		rejected := fault.Status == http.StatusOK && said != failures.APIError && said != failures.Refused
		return fault.Status >= 300 || fault.NoAnswer || rejected
	}
	var unsent Unsent
	return errors.As(err, &unsent)
}
