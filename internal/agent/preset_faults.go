package agent

import (
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/team"
)

// textRule reads a category out of what a program says of its provider's fault.
type textRule struct {
	pattern  *regexp.Regexp
	category team.Category
}

// textRules are for programs that hand on what the provider said, and no code.
// The first that fits wins.
var textRules = []textRule{
	{regexp.MustCompile(`(?i)context (window|length)|context_length|maximum number of tokens|prompt is too long|input token count`), team.ContextOverflow},
	{regexp.MustCompile(`(?i)rate.?limit|too many requests|resource_exhausted|quota|usage limit|retry in \d`), team.RateLimited},
	{regexp.MustCompile(`(?i)unauthori[sz]ed|unauthenticated|permission_denied|forbidden|api.?key|not logged in|auth method`), team.Auth},
	{regexp.MustCompile(`(?i)content policy|usage policy|prohibited_content|blocked by|flagged`), team.Refused},
	{regexp.MustCompile(`(?i)turn limit|max(imum)? (session )?turns`), team.TurnLimit},
}

// statusPattern finds an HTTP status in what a program says.
var statusPattern = regexp.MustCompile(`(?i)(?:status:?|"code"\s*:)\s*(\d{3})\b`)

// waitPattern finds the wait that a provider asked for.
var waitPattern = regexp.MustCompile(`(?i)(?:try again in|retry (?:in|after)|"retryDelay"\s*:\s*")\s*([\d.]+)\s*(ms|s|m)\b`)

// failureOfText makes a failure of what a program says of its provider's fault.
// otherwise is the category of a text that says nothing that is known.
func failureOfText(text string, otherwise team.Category) *team.Failure {
	f := team.Failf(otherwise, "%s", text)
	known := false
	if m := statusPattern.FindStringSubmatch(text); m != nil {
		status, _ := strconv.Atoi(m[1]) // three digits
		known = blame(f, status)
	}
	for _, rule := range textRules {
		if !known && rule.pattern.MatchString(text) {
			f.Category, f.Final, known = rule.category, rule.category == team.Auth, true
		}
	}
	if f.Category == team.RateLimited {
		f.RetryAfter = waitIn(text)
	}
	return f
}

// waitIn is the wait that the text asks for; zero if it asks for none.
func waitIn(text string) team.Duration {
	m := waitPattern.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0
	}
	unit := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute}[m[2]]
	return milliseconds(n * float64(unit) / float64(time.Millisecond))
}

// blame gives a failure the category of its provider's HTTP status. It returns
// false where the status alone does not say what was wrong: with a request that
// the provider refuses, which it would do again.
func blame(f *team.Failure, status int) bool {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		f.Category, f.Final = team.Auth, true
	case status == http.StatusTooManyRequests:
		f.Category = team.RateLimited
	case status == http.StatusRequestEntityTooLarge:
		f.Category = team.ContextOverflow
	case status == http.StatusRequestTimeout, status >= 500:
		f.Category = team.APIError
	case status >= 400:
		f.Category, f.Final = team.APIError, true
		return false
	}
	return true
}
