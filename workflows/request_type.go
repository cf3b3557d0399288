package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// request is a question to a person, of any kind:
//
//	answer  applied  closed  the request
//	-       -        -       is open
//	-       -        yes     was withdrawn or has expired, or the session ends
//	set     -        -       is answered, and what waits for it continues
//	set     yes      any     is done: the session has done as the answer says
//	set     -        yes     is answered, but not applied: the session ends, or the phase is repeated
//
// A session that continues as new passes the first and the third kind to the next run.
type request struct {
	session.Request
	// Stop is the exceeded budget; nil if the request is not about a budget.
	Stop *activities.BudgetStop `json:"stop,omitempty"`
	// Files is a short list of the files of a phase that waits for approval.
	Files string `json:"files,omitempty"`
	// OwnWork: it is about the assignment's own work, and not about how that fits
	// together with others'.
	OwnWork bool `json:"own_work,omitempty"`
	// RaisesBefore is how many raises of budgets there had been when it was opened.
	RaisesBefore int `json:"raises_before,omitempty"`
	// Unsaved are approvals after which others are needed, and that are not stored yet.
	Unsaved []session.Answer `json:"unsaved,omitempty"`
	// Answer is a person's answer; nil if there is none yet.
	Answer *session.Answer `json:"answer,omitempty"`
	// Notified: people outside were notified of the request. Alerted counts the alert rules about
	// waiting that it has reached.
	Notified bool `json:"notified,omitempty"`
	Alerted  int  `json:"alerted,omitempty"`

	// obsolete reports whether an answer is no longer needed; funded is ready when a budget may
	// permit calls again. Either may be nil.
	obsolete func() bool
	funded   func(ctx workflow.Context) workflow.Future
	// handedOver: an earlier run has opened it, and nothing in this one waits for it yet.
	handedOver bool
	// applied: the answer is applied, and the visible status shows it.
	applied bool
	// closed: no work waits for an answer any more.
	closed bool
}

// hasUnsaved reports whether the store does not have an approval yet.
func (r *request) hasUnsaved(a session.Answer) bool {
	return slices.ContainsFunc(r.Unsaved, func(b session.Answer) bool { return a.SamePerson(b) })
}

// answeredError is the error of a round that ends because a person has decided on the
// assignment.
type answeredError struct{ session.Answer }

func (a *answeredError) Error() string { return fmt.Sprintf("answered by %s: %s", a.By, a.Action) }

// notAdmittedYet is the message for updates before the session is admitted.
const notAdmittedYet = "the session is not admitted yet: it is still loading its team from the store; try again in a moment"

func notAwaited(format string, args ...any) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf(format, args...), NotAwaited,
		temporal.ApplicationErrorOptions{NonRetryable: true})
}

func actionList(actions []session.Action) string {
	var words []string
	for _, a := range actions {
		words = append(words, string(a))
	}
	return strings.Join(words, ", ")
}

// requestSuffix is part of request ids. It prevents an answer to a request of one run,
// or of a run before a reset, from being applied to the same request of another.
func requestSuffix(info *workflow.Info, run int) string {
	suffix := ""
	if run > 1 {
		suffix = fmt.Sprintf("-%d", run)
	}
	if info.OriginalRunID != info.WorkflowExecution.RunID {
		suffix += "-" + info.WorkflowExecution.RunID[:min(8, len(info.WorkflowExecution.RunID))]
	}
	return suffix
}
