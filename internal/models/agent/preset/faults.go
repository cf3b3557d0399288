package preset

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/wire"
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
	{
		regexp.MustCompile(`(?i)context (window|length)|context_length|maximum number of tokens|prompt is too long|input token count`),
		failures.ContextOverflow,
	},
	{regexp.MustCompile(`(?i)rate.?limit|too many requests|resource_exhausted|quota|usage limit|retry in \d`), failures.RateLimited},
	{
		regexp.MustCompile(`(?i)unauthori[sz]ed|unauthenticated|permission_denied|forbidden|api.?key|not logged in|auth method`),
		failures.Auth,
	},
	{regexp.MustCompile(`(?i)content policy|usage policy|prohibited_content|blocked by|flagged`), failures.Refused},
	{regexp.MustCompile(`(?i)turn limit|max(imum)? (session )?turns`), failures.TurnLimit},
	{ // Codex repeats the text of an answer with 400 without the status
		regexp.MustCompile(`(?i)\bmodel\b.{0,100}\b(not supported|does not exist|not found)|` +
			`(unsupported|unknown|invalid|missing required) (parameter|value|schema)|invalid_request_error`),
		failures.InvalidRequest,
	},
}

// statusPattern finds the HTTP status of an error in a program's message.
var statusPattern = regexp.MustCompile(`(?i)(?:status"?:?|"code"\s*:)\s*([45]\d\d)\b`)

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
	f := failures.Failf(otherwise, "%s", plain(text))
	if unpaid(text) {
		f.Category = failures.Auth
		return f
	}
	if m := statusPattern.FindStringSubmatch(text); m != nil {
		status, _ := strconv.Atoi(m[1]) // a number of three digits
		if f.Category = statusCategory(status); f.Category != failures.InvalidRequest {
			return f
		}
	}
	for _, rule := range textRules { // the text says more than the status of a rejected request
		if rule.pattern.MatchString(text) {
			f.Category = rule.category
			return f
		}
	}
	return f
}

// plain returns the sentence in a provider's error document, which Codex repeats as it is for an answer with 400.
func plain(text string) string {
	var document struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(text), &document) // another text stays as it is
	return cmp.Or(document.Error.Message, text)
}

// statusCategory returns the category of a provider's HTTP status alone.
func statusCategory(status int) failures.Category {
	return wire.Failure(&wire.Fault{Status: status}, "", time.Time{}).Category
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
