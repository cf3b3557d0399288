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
	if m := statusPattern.FindStringSubmatch(text); m != nil {
		status, _ := strconv.Atoi(m[1]) // three digits
		f.Category = categoryOfStatus(status)
	}
	if f.Category == team.Unknown || f.Category == otherwise {
		for _, rule := range textRules {
			if rule.pattern.MatchString(text) {
				f.Category = rule.category
				break
			}
		}
	}
	f.Final = f.Category == team.Auth
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

// categoryOfStatus is what an HTTP status of a provider means.
func categoryOfStatus(status int) team.Category {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return team.Auth
	case status == http.StatusTooManyRequests:
		return team.RateLimited
	case status == http.StatusRequestEntityTooLarge:
		return team.ContextOverflow
	case status == http.StatusRequestTimeout, status >= 500:
		return team.APIError
	}
	return team.Unknown
}
