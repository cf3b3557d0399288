package failures

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Category is the kind of failure that ended an attempt. Through [RuleFor] it decides whether there
// is another attempt and what its prompt contains.
type Category string

// The failure categories. Each has a row in the failure table below.
const (
	Syntax            Category = "syntax"
	TestFailure       Category = "test_failure"
	ContractViolation Category = "contract_violation"
	InvalidOutput     Category = "invalid_output"
	Timeout           Category = "timeout"
	APIError          Category = "api_error"
	RateLimited       Category = "rate_limited"
	ResourceError     Category = "resource_error"
	TokenBudget       Category = "token_budget"
	Auth              Category = "auth"
	WorkerLost        Category = "worker_lost"
	Cancelled         Category = "cancelled"
	Unknown           Category = "unknown"
	// ContextOverflow: the conversation no longer fits into the model.
	ContextOverflow Category = "context_overflow"
	// TurnLimit: the persona's turns are used up and the work is not finished.
	TurnLimit Category = "turn_limit"
	// InvalidRequest: the provider rejects the request as wrong, and would do so again.
	InvalidRequest Category = "invalid_request"
	// Refused: the model declined to do the work.
	Refused Category = "refused"
	// Rejected: a person, or a later phase, has sent the work back.
	Rejected Category = "rejected"
	// Pending: others outside have to act first, such as the reviewers and the CI of a pull request. It is no failure of anybody.
	Pending Category = "pending"
	// NeedsPerson: nothing has failed, and a person has to decide how the work goes on.
	NeedsPerson Category = "needs_person"
)

// Categories lists every category, in the order of documentation.
func Categories() []Category {
	all := make([]Category, len(failureTable))
	for i, rule := range failureTable {
		all[i] = rule.Category
	}
	return all
}

// ValidCategory reports whether c is one of the table's.
func ValidCategory(c Category) bool { return slices.Contains(Categories(), c) }

// Weight is how a round's outcome counts for the breaker of its agent.
type Weight string

// The weights of an outcome.
const (
	// CountsAsFailure adds one to the breaker's count of failures.
	CountsAsFailure Weight = "failure"
	// CountsAsSuccess: the agent answered, even if the answer was wrong.
	CountsAsSuccess Weight = "success"
	// Neutral: the outcome does not depend on the agent; a probe's lease is returned.
	Neutral Weight = "neutral"
)

// Owner is who has to act after a failure.
type Owner string

// The owners of failures.
const (
	// OwnerAgent: the work or the program is wrong. Another attempt may succeed.
	OwnerAgent Owner = "agent"
	// OwnerProvider: the provider of a model or a program fails. The failure is waited out, and
	// uses up no attempt and no round.
	OwnerProvider Owner = "provider"
	// OwnerHost: the machine, its store or its worker. A temporary failure is waited out like a
	// provider's outage, and does not count for the breaker.
	OwnerHost Owner = "host"
	// OwnerPerson: only a person can correct it.
	OwnerPerson Owner = "person"
	// OwnerOthers: people or programs outside have to act. The work looks again after the stated time, without a limit, and uses
	// up no attempt and no round.
	OwnerOthers Owner = "others"
)

// Start is the files and conversation from which the attempt after a failed one starts.
type Start string

// The starts of an attempt.
const (
	// FromInput: its input's files, without those of the failed attempt.
	FromInput Start = "input"
	// FromFiles: the files that the failed attempt left.
	FromFiles Start = "files"
	// FromConversation: those files, and the conversation up to the failure: the work itself was
	// not wrong.
	FromConversation Start = "conversation"
)

// Rule is a category's row of the failure table.
type Rule struct {
	Category Category
	// Owner has to act on the failure.
	Owner Owner
	// RetryAttempt: another attempt in the same round may succeed.
	RetryAttempt bool
	// RetryRound: another round, later, may succeed.
	RetryRound bool
	// Breaker is how a round that ends this way counts for the breaker.
	Breaker Weight
	// Start is what the next attempt starts from.
	Start Start
	// Fallback: the agent's fallback may succeed where the agent itself fails.
	Fallback bool
	// Advice is what the next attempt should change.
	Advice string
	// Remedy is what a person can do after all rounds have failed; empty: the same as Advice.
	Remedy string
}

// RuleFor returns the failure table's row for a category. An unlisted category is treated as
// unknown.
func RuleFor(c Category) Rule {
	if !ValidCategory(c) {
		c = Unknown
	}
	return failureTable[slices.Index(Categories(), c)]
}

// failureTable has one row for each category, in the order of documentation.
var failureTable = []Rule{
	{
		Category: Syntax, Owner: OwnerAgent, RetryAttempt: true, RetryRound: true, Breaker: CountsAsSuccess, Start: FromFiles,
		Advice: "The files do not parse or build. Read the output, fix exactly what it reports, and leave the rest unchanged.",
		Remedy: "The files still do not parse or build. See the output: fix the reported errors, make the instructions more precise, " +
			"or give the persona a more capable agent or more attempts.",
	},
	{
		Category: TestFailure, Owner: OwnerAgent, RetryAttempt: true, RetryRound: true, Breaker: CountsAsSuccess, Start: FromFiles,
		Advice: "A check failed on your files. Read its output, find the cause in your files, and change them so that the check " +
			"passes.",
		Remedy: "The check still does not pass. See its output, check that the check itself is right, make the instructions more " +
			"precise, or give the persona a more capable agent or more attempts.",
	},
	{
		Category: ContractViolation, Owner: OwnerAgent, RetryAttempt: true, RetryRound: true, Breaker: CountsAsSuccess,
		Start:  FromFiles,
		Advice: "A required output is missing. Deliver what the message names, under exactly that path or name.",
		Remedy: "The agent did not deliver what the team file requires. Check that produces and the instructions agree, or give the " +
			"persona a more capable agent or more attempts.",
	},
	{
		Category: InvalidOutput, Owner: OwnerAgent, RetryAttempt: true, RetryRound: true, Breaker: CountsAsSuccess, Start: FromInput,
		Advice: "The result was not accepted. Follow the message and the documented format.",
		Remedy: "The agent's result was not accepted. The message names a limit or a format: raise the limit in the worker file, fix " +
			"the agent's format, or give the persona another agent.",
	},
	{
		Category: Timeout, Owner: OwnerAgent, RetryAttempt: true, RetryRound: true, Breaker: CountsAsFailure, Start: FromInput,
		Advice: "The attempt took too long. Work in smaller steps, and report them in progress lines.",
		Remedy: "Raise the timeout of the persona or of its agent, or split the work into more phases.",
	},
	{
		Category: APIError, Owner: OwnerProvider, RetryAttempt: true, RetryRound: true, Breaker: CountsAsFailure,
		Start:  FromConversation,
		Advice: "The provider failed. Nothing needs to change; the same work is tried again.",
		Remedy: "See the message: if the provider refuses the request, fix model or base_url in the worker file; if it fails or " +
			"cannot be reached, wait until it works again.",
	},
	{
		Category: RateLimited, Owner: OwnerProvider, RetryAttempt: true, RetryRound: true, Breaker: CountsAsFailure,
		Start:  FromConversation,
		Advice: "The provider limits the request rate. The same work is tried again later.",
		Remedy: "Wait until the provider accepts requests again, get its limits raised, or lower the agent's concurrency in the " +
			"worker file.",
	},
	{
		Category: InvalidRequest, Owner: OwnerPerson, Breaker: Neutral, Start: FromConversation, Fallback: true,
		Advice: "The provider rejects the request. The same request would be rejected again.",
		Remedy: "The provider works, but rejects the request: see the message, fix model, base_url or the agent's settings in the " +
			"worker file, and retry.",
	},
	{
		Category: ResourceError, Owner: OwnerHost, RetryAttempt: true, RetryRound: true, Breaker: Neutral, Start: FromConversation,
		Advice: "The machine or its storage failed. Nothing needs to change; the same work continues once that is fixed.",
		Remedy: "See the message: free space or memory, or install what is missing on the worker's machine.",
	},
	{
		Category: TokenBudget, Owner: OwnerPerson, Breaker: Neutral, Start: FromConversation, Fallback: true,
		Advice: "The budget is spent. Use fewer tokens.",
		Remedy: "The budget is spent. Raise it with `maestro budget raise`, then retry; resume an ended session with `maestro resume " +
			"SESSION --team FILE` and a larger budget in that file.",
	},
	{
		Category: Auth, Owner: OwnerPerson, Breaker: Neutral, Start: FromConversation,
		Advice: "The credentials are missing or were refused. Set them in the worker's environment, and restart the worker.",
	},
	{
		Category: WorkerLost, Owner: OwnerHost, Breaker: Neutral, Start: FromInput,
		Advice: "The worker died repeatedly during this work. Check its log and the agent's use of memory and processes.",
	},
	{
		Category: Cancelled, Owner: OwnerPerson, Breaker: Neutral, Start: FromInput,
		Advice: "The work was cancelled.",
	},
	{
		Category: Unknown, Owner: OwnerAgent, RetryAttempt: true, RetryRound: true, Breaker: CountsAsFailure, Start: FromInput,
		Advice: "The agent failed without a failure category. Read the message and the output, and avoid the reported problem.",
		Remedy: "The agent failed without a failure category: see the message and its output (`maestro logs`).",
	},
	{
		Category: ContextOverflow, Owner: OwnerAgent, RetryAttempt: true, RetryRound: true, Breaker: CountsAsSuccess, Start: FromFiles,
		Advice: "The conversation exceeds the model's context window. Continue from the files as they are: read only the relevant " +
			"parts, and work in smaller steps.",
		Remedy: "Split the work into more phases, or give the persona an agent with more context_tokens.",
	},
	{
		Category: TurnLimit, Owner: OwnerAgent, RetryAttempt: true, RetryRound: true, Breaker: CountsAsSuccess, Start: FromFiles,
		Advice: "The turn limit was reached before the work was finished. Continue from the files as they are, and finish the most " +
			"important parts first.",
		Remedy: "Raise max_turns of the persona or of its agent, or split the work into more phases.",
	},
	{
		Category: Refused, Owner: OwnerAgent, RetryAttempt: true, RetryRound: true, Breaker: CountsAsSuccess, Start: FromInput,
		Fallback: true,
		Advice:   "The model declined the work. Explain in the instructions why it is legitimate, or give the persona another agent.",
	},
	{
		Category: Rejected, Owner: OwnerPerson, RetryAttempt: true, RetryRound: true, Breaker: CountsAsSuccess, Start: FromFiles,
		Advice: "The work was sent back. Continue from the files as they are, and resolve the reasons.",
		Remedy: "The work was sent back as often as the team file allows. See the reasons, and write in a note what to do.",
	},
	{
		Category: Pending, Owner: OwnerOthers, RetryAttempt: true, RetryRound: true, Breaker: Neutral, Start: FromConversation,
		Advice: "Others have to act first. The work continues by itself.",
	},
	{
		Category: NeedsPerson, Owner: OwnerPerson, Breaker: Neutral, Start: FromConversation,
		Advice: "A person has to decide. The message says what the answers do.",
	},
}

// Failure is the reason why an attempt failed. The next attempt gets it as feedback, and a person
// reads it in a report.
type Failure struct {
	// Category decides what follows.
	Category Category `json:"category"`
	// Message is one sentence on what failed.
	Message string `json:"message"`
	// Output is the evidence: the tail of what the agent or check printed.
	Output string `json:"output,omitempty"`
	// Final: another attempt is useless, although the table permits one for the category.
	Final bool `json:"final,omitempty"`
	// RetryAfter is the wait that a provider requested; zero: the usual one.
	RetryAfter textfmt.Duration `json:"retry_after,omitempty"`
}

// Failf makes a Failure of a category.
func Failf(c Category, format string, args ...any) *Failure {
	return &Failure{Category: c, Message: fmt.Sprintf(format, args...)}
}

// Error makes a Failure an error.
func (f *Failure) Error() string { return string(f.Category) + ": " + f.Message }

// CategoryOf is the category of a failure; other errors mean that the work was cancelled.
func CategoryOf(err error) Category {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Category
	}
	return Cancelled
}

// Advice is what the next attempt should change.
func (f *Failure) Advice() string { return RuleFor(f.Category).Advice }

// Remedy is what a person can do after all rounds have failed.
func (f *Failure) Remedy() string {
	rule := RuleFor(f.Category)
	return cmp.Or(rule.Remedy, rule.Advice)
}

// RetryAttempt reports whether another attempt in the same round is useful.
func (f *Failure) RetryAttempt() bool { return !f.Final && RuleFor(f.Category).RetryAttempt }

// RetryRound reports whether another round is useful.
func (f *Failure) RetryRound() bool { return !f.Final && RuleFor(f.Category).RetryRound }

// AnotherRound reports whether another round follows automatically after this failure has ended a
// round. round counts from 1 within its series.
func (f *Failure) AnotherRound(round, rounds int) bool { return round < rounds && f.RetryRound() }

// MayPass reports whether the failure is the provider's or the host's and may be temporary, or whether others have to act.
func (f *Failure) MayPass() bool {
	rule := RuleFor(f.Category)
	waits := rule.Owner == OwnerProvider || rule.Owner == OwnerHost || rule.Owner == OwnerOthers
	return !f.Final && rule.RetryAttempt && waits
}

// Awaited names, for a sentence, what is waited for during failures of the category: the provider,
// the machine or others.
func (c Category) Awaited() string {
	switch RuleFor(c).Owner {
	case OwnerHost:
		return "machine"
	case OwnerOthers:
		return "others"
	default:
		return "provider"
	}
}
