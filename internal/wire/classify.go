package wire

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/failures"
)

// status is the HTTP status, or within a stream the one that the error states.
func (f *Fault) status() int {
	if f.Number >= http.StatusBadRequest && (f.Status == 0 || f.Status == http.StatusOK) {
		return f.Number
	}
	return f.Status
}

// failure classifies a fault: whose it is decides what follows. The order matters: the provider's names
// are more precise than the status, and the status is more precise than the words.
func (f *Fault) failure(who string) *failures.Failure {
	status := f.status()
	switch {
	case f.NoAnswer:
		return failures.Failf(failures.APIError, "not %s has answered, but a proxy or another server in front of it: %v", who, f)
	case f.Cut:
		return failures.Failf(failures.APIError, "the answer of %s was incomplete: %v", who, f)
	case f.overflow():
		return failures.Failf(failures.ContextOverflow, "the conversation is too long for the model: %v", f)
	case f.hasName(filterNames):
		return failures.Failf(failures.Refused, "%s refuses the content: %v", who, f)
	case f.unpaid():
		return failures.Failf(failures.Auth, "%s reports a billing problem: %v", who, f)
	case status == http.StatusTooManyRequests, f.hasName(limitNames):
		return failures.Failf(failures.RateLimited, "%s limits the request rate: %v", who, f)
	case f.hasName(outageNames), status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		return failures.Failf(failures.APIError, "%s failed: %v", who, f)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, f.hasName(keyNames), f.badKey():
		return failures.Failf(failures.Auth, "%s refused the key: %v", who, f)
	case status == http.StatusNotFound:
		return failures.Failf(failures.InvalidRequest, "%s does not know the model or the path; fix model or base_url in the worker file: %v", who, f)
	case status > http.StatusOK, f.hasName(requestNames):
		return failures.Failf(failures.InvalidRequest, "%s rejects the request: %v", who, f)
	}
	return failures.Failf(failures.APIError, "%s failed: %v", who, f)
}

// What the names of errors say, in types and codes. Each server has its own, of the same few words.
var (
	overflowNames = regexp.MustCompile(`(?i)context.*(exceed|length|window|size|overflow)|(exceed|too_?(long|large)).*(context|prompt|input)|(prompt|input|request)_?(is_)?too_?(long|large)`)
	filterNames   = regexp.MustCompile(`(?i)content_?(filter|policy)|responsible_?ai|data_?inspection_?failed|^safety$`)
	unpaidNames   = regexp.MustCompile(`(?i)billing|(insufficient|no|exceeded_current)_?(quota|balance|credits?|funds)|payment_?required|arrearage`)
	limitNames    = regexp.MustCompile(`(?i)rate_?limit|throttl|too_?many_?requests|resource_?exhausted`)
	outageNames   = regexp.MustCompile(`(?i)overloaded|unavailable|(internal|server|api)_?error$|at_?capacity|^internal$|deadline_?exceeded|timeout`)
	keyNames      = regexp.MustCompile(`(?i)authentication|unauthenticated|unauthorized|permission|forbidden|invalid_?(api_?)?key|access_?denied`)
	requestNames  = regexp.MustCompile(`(?i)invalid|bad_?request|unsupported|unprocessable|not_?found|failed_?precondition|out_?of_?range`)
)

// hasName reports whether the type or the code has a word of a group.
func (f *Fault) hasName(group *regexp.Regexp) bool {
	return group.MatchString(f.Type) || group.MatchString(f.Code)
}

// unpaidWords match a sentence on an account without money.
var unpaidWords = regexp.MustCompile(`(?i)\b(credits?|balance|funds|billing|payment)\b.*\b(too low|insufficient|exhausted|exceeded|depleted|required|more|expired|overdue)\b|` +
	`\b(insufficient|more|out of|no|not enough|negative)\b.{0,20}\b(credits?|balance|funds)\b`)

// unpaid reports whether the account has no credit left. Some providers report that as a bad request, or
// as a limit. A limit that ends by itself states when.
func (f *Fault) unpaid() bool {
	status := f.status()
	if f.hasName(unpaidNames) || status == http.StatusPaymentRequired {
		return true
	}
	rejected := status == http.StatusBadRequest || status == http.StatusForbidden || status == http.StatusTooManyRequests && f.Delay == 0 && f.Header.Get("Retry-After") == ""
	return rejected && unpaidWords.MatchString(f.Message)
}

// badKey reports whether Gemini rejects the key, which it does as a bad request.
func (f *Fault) badKey() bool {
	return f.Type == "INVALID_ARGUMENT" && strings.Contains(strings.ToLower(f.Message), "api key not valid")
}

// Rejects reports whether the provider rejects the request itself, for a reason that is not known.
func (f *Fault) Rejects() bool {
	status := f.status()
	return !f.NoAnswer && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) && f.failure("").Category == failures.InvalidRequest
}

// The words of which a sentence on a prompt that is too long consists, in every server's order: what is too long,
// that it is, and in which measure.
var (
	overflowSubject = regexp.MustCompile(`(?i)\b(prompts?|inputs?|context|conversation|messages|sequence|history|request has|request contains|model token)\b`)
	overflowExcess  = regexp.MustCompile(`(?i)too (long|large|big|many)|exceed|maximum|\bmax\b|above|over the|larger than|longer than|greater than|more than|limit|must be|should be|does(n't| not) fit|range of`)
	overflowMeasure = regexp.MustCompile(`(?i)tokens?\b|length|\blong\b|context|window|\bsize\b`)
	// otherSubject is what else can be too long or too large in a request.
	otherSubject = regexp.MustCompile(`(?i)\b(images?|audio|video|files?|pdf|pages|tools?|functions?|schemas?|temperature|top_p|per minute|per day|tpm|rpm)\b`)
)

// overflow reports whether the prompt is longer than the model's context window.
func (f *Fault) overflow() bool {
	status := f.status()
	if f.hasName(overflowNames) || status == http.StatusRequestEntityTooLarge {
		return true
	}
	rejected := status == http.StatusBadRequest || status == http.StatusUnprocessableEntity || f.hasName(requestNames) && status < 400
	said := f.Message
	return rejected && overflowSubject.MatchString(said) && overflowExcess.MatchString(said) && overflowMeasure.MatchString(said) &&
		!otherSubject.MatchString(said) && !f.aboutOutput()
}

// numbers matches numbers of tokens.
var numbers = regexp.MustCompile(`\d[\d,_]*`)

// aboutOutput reports whether the message is about the bound of the answer, and names no number of tokens of a
// prompt beside it.
func (f *Fault) aboutOutput() bool {
	said := strings.ToLower(f.Message)
	if !strings.Contains(said, "max_tokens") && !strings.Contains(said, "max_completion_tokens") && !strings.Contains(said, "max_output_tokens") {
		return false
	}
	large := map[int64]bool{}
	for _, text := range numbers.FindAllString(said, -1) {
		if n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "").Replace(text), 10, 64); err == nil && n >= 256 {
			large[n] = true
		}
	}
	return len(large) < 3 || !overflowSubject.MatchString(said) // the window, the prompt and the answer
}
