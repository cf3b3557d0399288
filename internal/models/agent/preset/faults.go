package preset

import (
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

// textRule finds a category in a program's message about its provider.
type textRule struct {
	pattern  *regexp.Regexp
	category failures.Category
}

// textRules are for programs that report the provider's message without a code. The first match
// wins.
var textRules = []textRule{
	{regexp.MustCompile(`(?i)context (window|length)|context_length|maximum number of tokens|prompt is too long|input token count`), failures.ContextOverflow},
	{regexp.MustCompile(`(?i)rate.?limit|too many requests|resource_exhausted|quota|usage limit|retry in \d`), failures.RateLimited},
	{regexp.MustCompile(`(?i)unauthori[sz]ed|unauthenticated|permission_denied|forbidden|api.?key|not logged in|auth method`), failures.Auth},
	{regexp.MustCompile(`(?i)content policy|usage policy|prohibited_content|blocked by|flagged`), failures.Refused},
	{regexp.MustCompile(`(?i)turn limit|max(imum)? (session )?turns`), failures.TurnLimit},
}

// statusPattern finds an HTTP status in a program's message.
var statusPattern = regexp.MustCompile(`(?i)(?:status:?|"code"\s*:)\s*(\d{3})\b`)

var (
	// unpaidPattern matches messages about an account without credit, or a plan without the
	// requested feature.
	unpaidPattern = regexp.MustCompile(`(?i)credit balance (?:is )?too low|billing_error|insufficient_quota|check your plan and billing details\.?$|` +
		`credits? (?:are )?required|requires usage credits|out of (?:usage |extra )?(?:credits|usage)|monthly (?:spend|usage) limit|spend cap|` +
		`upgrade to plus|usage limit is set to \$0|doesn't include (?:extra )?usage|usage allocation has been disabled|` +
		`organization has been disabled|disabled organization|limit: ?0(?:[^\d.]|\.?$)`)
	// statesReset matches messages with a reset time.
	statesReset = regexp.MustCompile(`(?i)try again (?:at|in) |resets? (?:at|in|on|after)? ?[a-z]{0,9}\.? ?\d`)
)

// unpaid reports whether a message means that a person has to fix the account or its plan.
func unpaid(text string) bool {
	return unpaidPattern.MatchString(text) && !statesReset.MatchString(text)
}

// failureOfText makes a failure from a program's message about its provider. otherwise is the
// category of unknown messages.
func failureOfText(text string, otherwise failures.Category) *failures.Failure {
	f := failures.Failf(otherwise, "%s", text)
	if unpaid(text) {
		f.Category = failures.Auth
		return f
	}
	known := false
	if m := statusPattern.FindStringSubmatch(text); m != nil {
		status, _ := strconv.Atoi(m[1]) // three digits
		known = blame(f, status)
	}
	for _, rule := range textRules {
		if !known && rule.pattern.MatchString(text) {
			f.Category, known = rule.category, true // the text is more precise than the status
		}
	}
	return f
}

// blame sets the category of a failure by its provider's HTTP status. It returns false if the
// status is not enough: the provider refuses the request, and would refuse it again.
func blame(f *failures.Failure, status int) bool {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		f.Category = failures.Auth
	case status == http.StatusTooManyRequests:
		f.Category = failures.RateLimited
	case status == http.StatusRequestEntityTooLarge:
		f.Category = failures.ContextOverflow
	case status == http.StatusRequestTimeout, status >= 500:
		f.Category = failures.APIError
	case status >= 400:
		f.Category = failures.InvalidRequest
		return false
	}
	return true
}

// LimitReset returns the wait that a provider states: by a time in the program's event stream,
// or in the failure's text.
func LimitReset(f *failures.Failure, resets, now time.Time) textfmt.Duration {
	if wait := retryafter.Until(resets, now); wait > 0 {
		return textfmt.Duration(wait)
	}
	if wait := retryafter.InText(f.Message, now); wait > 0 {
		return textfmt.Duration(wait)
	}
	return f.RetryAfter
}
