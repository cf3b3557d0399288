package wire

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

// status is the HTTP status, or the one that the error states where that is more precise: within a stream, or if a
// proxy reports everything as a bad request.
func (f *Fault) status() int {
	if f.Number >= http.StatusBadRequest && (f.Status == 0 || f.Status == http.StatusOK || f.Status == http.StatusBadRequest) {
		return f.Number
	}
	return f.Status
}

// failure classifies a fault: whose it is decides what follows. The order matters: the provider's names are more precise
// than the status, and the status is more precise than the words. Lists of words are the last resort, for servers that
// state no name or a general one. They stay small: where a provider has a name for an error, the name is what to add.
func (f *Fault) failure(who string) *failures.Failure {
	status := f.status()
	switch {
	case f.NoAnswer && status != http.StatusRequestEntityTooLarge: // too large is the request, whoever says so
		return failures.Failf(failures.APIError, "not %s has answered, but a proxy or another server in front of it: %v", who, f)
	case f.Cut:
		return failures.Failf(failures.APIError, "the answer of %s was incomplete: %v", who, f)
	case f.overflows():
		return failures.Failf(failures.ContextOverflow, "the conversation is too long for the model: %v", f)
	case f.filtered():
		return failures.Failf(failures.Refused, "%s refuses the content: %v", who, f)
	case f.unpaid():
		return failures.Failf(failures.Auth, "%s reports a billing problem: %v", who, f)
	case f.aboveLimit():
		limited := failures.Failf(failures.RateLimited, "the request alone is above a limit of %s: %v", who, f)
		limited.Final = true // no wait makes room for it
		return limited
	case status == http.StatusTooManyRequests, f.hasName(limitNames):
		return failures.Failf(failures.RateLimited, "%s limits the request rate: %v", who, f)
	case status == http.StatusNotImplemented, status == http.StatusInternalServerError && f.unsupported():
		return failures.Failf(failures.InvalidRequest, "%s does not support the request: %v", who, f)
	case f.hasName(outageNames), slices.Contains(outageStatuses, status), status >= 500, status == http.StatusBadRequest &&
		f.says(crashWords):
		return failures.Failf(failures.APIError, "%s failed: %v", who, f)
	case status == http.StatusNotFound, f.hasName(modelNames):
		return failures.Failf(failures.InvalidRequest, "%s does not know the model or the path; fix model or base_url in the "+
			"worker file: %v", who, f)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, f.hasName(keyNames),
		status == http.StatusBadRequest && strings.Contains(strings.ToLower(f.Message), "api key"): // Gemini, xAI
		return failures.Failf(failures.Auth, "%s refused the key: %v", who, f)
	case status > http.StatusOK, f.hasName(requestNames):
		return failures.Failf(failures.InvalidRequest, "%s rejects the request: %v", who, f)
	}
	return failures.Failf(failures.APIError, "%s failed: %v", who, f)
}

// Ending is why an answer ends.
type Ending string

// The endings of answers.
const (
	// Done: the model has ended its answer, or calls tools. Words that are not known are such endings.
	Done Ending = "done"
	// CutOff: the answer has reached its bound.
	CutOff Ending = "truncated"
	// Filtered: the provider or the model refuses the content.
	Filtered Ending = "refused"
	// Overflowed: the conversation is longer than the model's context window.
	Overflowed Ending = "overflow"
	// AboveLimit: the conversation alone is above a limit of the provider's rate.
	AboveLimit Ending = "above_limit"
	// Failed: the provider has failed.
	Failed Ending = "failed"
)

// endings are the words for endings, in order: OpenAI's, and those of compatible servers.
var endings = []struct {
	words  *regexp.Regexp
	ending Ending
}{
	{regexp.MustCompile(`(?i)context_window`), Overflowed},
	{
		regexp.MustCompile(`(?i)content_?filter|guardrail|toxic|safety|sensitive|refusal|prohibited|blocklist|recitation|^spii$`),
		Filtered,
	},
	{regexp.MustCompile(`(?i)length|max_?(output_?)?tokens|truncat`), CutOff},
	{regexp.MustCompile(`(?i)error|insufficient|abort|cancel`), Failed},
}

// EndingOf returns the meaning of a provider's word.
func EndingOf(stop string) Ending {
	for _, e := range endings {
		if e.words.MatchString(stop) {
			return e.ending
		}
	}
	return Done
}

// outageStatuses are the statuses below 500 of a server that may answer later.
var outageStatuses = []int{
	http.StatusRequestTimeout, http.StatusConflict, http.StatusFailedDependency, http.StatusTooEarly,
	statusCancelled,
}

// statusCancelled is Google's status of a call that its servers have cancelled.
const statusCancelled = 499

// What the names of errors say, in types and codes. Each server has its own, of the same few words.
var (
	overflowNames = regexp.MustCompile(`(?i)context.*(exceed|length|window|size|overflow)|(exceed|too_?(long|large)).*(context|prompt|input)|(prompt|input|request)_?(is_)?too_?(long|large)`)
	filterNames   = regexp.MustCompile(`(?i)content_?(filter|policy)|responsible_?ai|data_?inspection_?failed|^safety$|^invalid_prompt$`)
	unpaidNames   = regexp.MustCompile(`(?i)billing|(insufficient|no|exceeded_current)_?(quota|balance|credits?|funds)|payment_?required|arrearage|budget_?exceeded|credit_?limit|restricted`)
	limitNames    = regexp.MustCompile(`(?i)rate_?limit|throttl|too_?many_?requests|resource_?exhausted`)
	outageNames   = regexp.MustCompile(`(?i)overloaded|unavailable|internal_?server|connection_?error|at_?capacity|capacity_?exceeded|^internal$|deadline_?exceeded|timeout`)
	keyNames      = regexp.MustCompile(`(?i)auth(entication)?_?error|authentication|unauthenticated|unauthorized|permission|forbidden|invalid_?(api_?)?key|api_?key_?invalid|access_?denied`)
	modelNames    = regexp.MustCompile(`(?i)model.*(not_?found|not_?available|access_?denied|decommissioned)`)
	requestNames  = regexp.MustCompile(`(?i)invalid|bad_?request|unsupported|not_?supported|unprocessable|not_?found|failed_?precondition|out_?of_?range`)
	// generalNames stand for several kinds of errors, so that the words decide.
	generalNames = regexp.MustCompile(`(?i)internal|permission|forbidden|denied`)
	// specificNames are those of one kind, unless they are general ones.
	specificNames = regexp.MustCompile(fmt.Sprintf("%v|%v|%v|%v|%v|%v", filterNames, unpaidNames, limitNames, outageNames, keyNames,
		modelNames))
)

// miniMax are MiniMax's codes, by the names that others have for them.
var miniMax = map[string]string{
	"1000": "internal_server_error", "1013": "internal_server_error", "1024": "internal_server_error",
	"1033": "internal_server_error", "1001": "timeout",
	"1002": "rate_limit", "1039": "rate_limit", "1041": "rate_limit", "2045": "rate_limit", "2056": "rate_limit",
	"1008": "insufficient_balance",
	"1004": "authentication", "2049": "invalid_api_key", "1026": "content_filter", "1027": "content_filter",
	"1042": "invalid_params", "2013": "invalid_params",
}

// exceptions matches the names of exceptions at the beginning of a message, as LiteLLM writes them.
var exceptions = regexp.MustCompile(`^(\w+\.)?\w+(Error|Exception)(: | - )`)

// names are the names of the error: the type, the code, others, and those of exceptions.
func (f *Fault) names() []string {
	names := append([]string{f.Type, f.Code}, f.Names...)
	for said := f.Message; ; {
		name := exceptions.FindString(said)
		if name == "" {
			return names
		}
		names, said = append(names, strings.TrimRight(name, " :-")), said[len(name):]
	}
}

// hasName reports whether a name of the error has a word of a group.
func (f *Fault) hasName(group *regexp.Regexp) bool {
	return slices.ContainsFunc(f.names(), group.MatchString)
}

// says reports whether the message has a word of each group, and no name says what the error is.
func (f *Fault) says(groups ...*regexp.Regexp) bool {
	named := func(name string) bool { return specificNames.MatchString(name) && !generalNames.MatchString(name) }
	silent := func(group *regexp.Regexp) bool { return !group.MatchString(f.Message) }
	return !slices.ContainsFunc(f.names(), named) && !slices.ContainsFunc(groups, silent)
}

// What servers of local models say with a general status: llama.cpp's 500 is also that of a request for something
// that it was not started with, and LM Studio's 400 also that of a model that has ended.
var (
	partSubject = regexp.MustCompile(`(?i)\b(param(eter)?s?|tools?|tool_choice|functions?|response_format|json_schema|grammar|images?|audio|messages?)\b`)
	partVerdict = regexp.MustCompile(`(?i)\b(requires?|unsupported|not (\w+ )?(support(ed)?|enabled)|cannot (be )?used?)\b`)
	crashWords  = regexp.MustCompile(`(?i)\b(crashed|model (was )?(unloaded|reloaded)|exit (code|status)|channel error)\b`)
)

// unsupported reports whether a server that was started without it is asked for something.
func (f *Fault) unsupported() bool {
	return !f.hasName(outageNames) && f.hasName(requestNames) || f.says(partSubject, partVerdict)
}

// What a sentence on refused content consists of: what is refused, and why.
var (
	filterSubject = regexp.MustCompile(`(?i)\b(content|prompt|input|output|request|response)\b`)
	filterVerdict = regexp.MustCompile(`(?i)\b(flagged|filter(ed|ing)|moderation|unsafe|inappropriate|harmful|risk|violat(es?|ing|ion))\b`)
)

// filtered reports whether the content is refused.
func (f *Fault) filtered() bool {
	status := f.status()
	return f.hasName(filterNames) || (status == http.StatusBadRequest || status == http.StatusForbidden) &&
		f.says(filterSubject, filterVerdict)
}

// unpaidWords match a sentence on an account without money.
var unpaidWords = regexp.MustCompile(`(?i)\b(credits?|balance|funds|billing|payment|extra usage)\b.*\b(too low|insufficient|exhausted|exceeded|depleted|required|more|expired|overdue)\b|` +
	`\b(insufficient|more|out of|no|not enough|negative)\b.{0,20}\b(credits?|balance|funds|extra usage)\b`)

// spentWords match a sentence on a limit of money or use that the account has set. As an error of the rate it ends by
// itself.
var spentWords = regexp.MustCompile(`(?i)\b(usage|spending|budget|organization)\b.*\b(limits?|exceeded|restricted|disabled)\b`)

// unpaid reports whether the account has no credit left. Some providers report that as a bad request, or
// as a limit. A limit that ends by itself states when.
func (f *Fault) unpaid() bool {
	status := f.status()
	if f.hasName(unpaidNames) || status == http.StatusPaymentRequired {
		return true
	}
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusPreconditionFailed:
		return f.says(unpaidWords) || f.says(spentWords)
	case http.StatusTooManyRequests:
		endless := f.Wait == "" && f.Header.Get("Retry-After") == "" && retryafter.InText(f.Message, time.Time{}) == 0
		return endless && unpaidWords.MatchString(f.Message)
	}
	return false
}

// sizes matches a limit of tokens and the size of the request, in a sentence on a rate.
var sizes = regexp.MustCompile(`(?i)\blimit\W+(\d[\d,]*).*\brequested\W+(\d[\d,]*)`)

// aboveLimit reports whether the request is larger than what a limit of the rate ever permits.
func (f *Fault) aboveLimit() bool {
	m := sizes.FindStringSubmatch(f.Message)
	return m != nil && numberOf(m[2]) > numberOf(m[1])
}

// Rejects reports whether the provider rejects the request itself, for a reason that is not known.
func (f *Fault) Rejects() bool {
	status := f.status()
	return !f.NoAnswer && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) &&
		f.failure("").Category == failures.InvalidRequest
}

// What a sentence on a prompt that is too long consists of, in every server's order: what is too long, that it is,
// and in which measure. A sentence in that measure that names two numbers of tokens needs no other words.
var (
	overflowSubject = regexp.MustCompile(`(?i)\b(prompts?|inputs?|context|conversation|messages|sequence|history|request has|request contains|model token)\b`)
	overflowExcess  = regexp.MustCompile(`(?i)too (long|large|big|many)|exceed|maximum|\bmax\b|above|over the|overflow|larger than|longer than|greater than|more than|limit|must be|should be|does(n't| not) fit|range of`)
	overflowMeasure = regexp.MustCompile(`(?i)tokens?\b|length|\blong\b|context|window|\bsize\b|\bn_ctx\b`)
	// otherSubject is what else can be too long or too large in a request.
	otherSubject = regexp.MustCompile(`(?i)\b(images?|audio|video|files?|pdf|pages|tools?|functions?|schemas?|temperature|top_p|per minute|per day|tpm|rpm|deadline|timeout)\b`)
	// ofInput are words for parts of a prompt that are not about such a subject.
	ofInput = regexp.MustCompile(`(?i)\b(in the functions|of (tool|image|audio|file) input)\b`)
	// field matches the name of a field at the beginning of a message about it.
	field = regexp.MustCompile(`^[a-z_]+[\w.\[\]-]*: `)
	// promptField matches the names of fields whose size is that of the prompt.
	promptField = regexp.MustCompile(`^(messages|prompt|input|contents|max_)`)
	// nameField matches the names of fields within a prompt whose size is not that of a text.
	nameField = regexp.MustCompile(`(\b|_)(id|name|tool_calls)$`)
)

// aboutOther reports whether the error is about a field of the request that is no part of the prompt.
func (f *Fault) aboutOther() bool {
	name := f.Param
	if name == "" && !exceptions.MatchString(f.Message) {
		name = field.FindString(f.Message)
	}
	return name != "" && (!promptField.MatchString(name) || nameField.MatchString(name))
}

// overflows reports whether the prompt is longer than the model's context window.
func (f *Fault) overflows() bool {
	status := f.status()
	if f.hasName(overflowNames) || status == http.StatusRequestEntityTooLarge {
		return true
	}
	// llama.cpp, Ollama
	rejected := status == http.StatusBadRequest || status == http.StatusUnprocessableEntity || status < 400 ||
		status == http.StatusInternalServerError
	said := ofInput.ReplaceAllString(f.Message, "")
	if !rejected || f.aboutOther() || !f.says() {
		return false
	}
	words := overflowSubject.MatchString(said) && overflowExcess.MatchString(said)
	return overflowMeasure.MatchString(said) && (words || len(largeNumbers(said)) > 1) && !otherSubject.MatchString(said) &&
		!aboutOutput(said)
}

// numbers matches numbers of tokens.
var numbers = regexp.MustCompile(`\d[\d,_]*`)

// largeNumbers are the different numbers in a text that may be a size of a prompt or a window.
func largeNumbers(said string) map[int64]bool {
	large := map[int64]bool{}
	for _, text := range numbers.FindAllString(said, -1) {
		if n := numberOf(text); n >= 256 {
			large[n] = true
		}
	}
	return large
}

// numberOf returns a number as people write it; zero if it is none, or too large.
func numberOf(text string) int64 {
	n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "").Replace(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// outputBound matches the names of the bound of the answer.
var outputBound = regexp.MustCompile(`(?i)\bmax_?(completion_?|output_?)?tokens\b`)

// aboutOutput reports whether the message is about the bound of the answer, and names no number of tokens of a
// prompt beside it.
func aboutOutput(said string) bool {
	prompt := overflowSubject.MatchString(said) && len(largeNumbers(said)) >= 3 // the window, the prompt and the answer
	return outputBound.MatchString(said) && !prompt
}
