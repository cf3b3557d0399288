package delivery

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Act is what to do next about a pull request.
type Act string

// What to do next.
const (
	// Wait looks again after Step.Wait: others have to act.
	Wait Act = "wait"
	// MarkReady ends the draft, and asks the reviewers.
	MarkReady Act = "ready"
	// RerunChecks runs the failed Step.Checks again, once for each commit, because they may be flaky.
	RerunChecks Act = "rerun"
	// SendBack has the work done again, for Step.Items.
	SendBack Act = "send_back"
	// MergeBase merges the base into the branch.
	MergeBase Act = "merge_base"
	// Merge merges the pull request.
	Merge Act = "merge"
	// Push pushes the branch anew, because a person wants it.
	Push Act = "push"
	// Ask asks a person Step.Question.
	Ask Act = "ask"
	// Finish: it is merged.
	Finish Act = "finish"
)

// The times of looks and waits.
const (
	// ChecksAppear is how long after a push a host may take to list the checks of a commit.
	ChecksAppear = time.Minute
	// quiet is the time without a further comment after which comments are sent back together.
	quiet = time.Minute
	// lookSoonest and lookLatest bound the time between two looks. It is a quarter of the time since the last change.
	lookSoonest = 20 * time.Second
	lookLatest  = 10 * time.Minute
)

// Mention addresses Maestro in a comment.
const Mention = "@maestro"

// Step is what to do next, with its details.
type Step struct {
	Act Act
	// Why is one sentence on what is waited for, or on what a person is asked.
	Why      string
	Wait     time.Duration
	Question Question
	// Checks have failed: they are to be run again, or are feedback.
	Checks []Check
	// Notes are the feedback of people, Items the ids of all that is sent back, and Replies what is to be answered.
	Notes   []string
	Items   []string
	Replies []Reply
}

// Order is how a session wants its work to be delivered.
type Order struct {
	spec.Deliver
	// Retried: a person has answered the last question with a retry.
	Retried bool
}

// Decide returns what to do next about a pull request. It depends on nothing but its arguments. The record has what earlier
// steps have done, so that each thing is done once.
func Decide(o Order, p PullRequest, r Record, now time.Time) Step {
	agreed := func(q Question) bool { return o.Retried && r.Asked == q && r.AskedFor == p.Head }
	switch {
	case p.State == session.PullMerged:
		return Step{Act: Finish}
	case p.Head == "" && agreed(AskBranch):
		return Step{Act: Push}
	case p.Head == "": // GitHub has closed it then, too
		return Step{
			Act: Ask, Question: AskBranch,
			Why: fmt.Sprintf("branch %s of %s was deleted; retry pushes it again, and reopens what was closed; skip goes on without a "+
				"merge", p.Branch, p.URL),
		}
	case p.State == session.PullClosed:
		return Step{Act: Ask, Question: AskReopen, Why: closedText(p)}
	}
	feedback := feedbackOfPeople(p, r)
	pending := count(p.Checks, CheckPending)
	if pending == 0 {
		failed := failedChecks(p, r)
		if again := rerunnable(failed, p, r); len(again) > 0 {
			return Step{Act: RerunChecks, Checks: again, Why: "runs " + checkNames(again) + " again, which may be flaky"}
		}
		for _, c := range failed {
			feedback.Checks = append(feedback.Checks, c)
			feedback.Items = append(feedback.Items, CheckItem(p.Head, c))
		}
	}
	if len(feedback.Items) > 0 {
		if left := quiet - now.Sub(r.ChangedAt); len(feedback.Notes) > 0 && left > 0 {
			return Step{Act: Wait, Why: "waits for further comments on " + p.URL, Wait: left}
		}
		feedback.Act = SendBack
		return feedback
	}
	if p.Mergeable == MergeConflicts {
		return Step{Act: MergeBase, Why: "the base has changed the same lines"}
	}
	return decideReady(o, p, r, now, pending, agreed(AskMerge))
}

// decideReady decides about an open pull request without unanswered feedback.
func decideReady(o Order, p PullRequest, r Record, now time.Time, pending int, agreed bool) Step {
	wait := func(format string, args ...any) Step {
		return Step{Act: Wait, Why: fmt.Sprintf(format, args...), Wait: untilLook(r, now)}
	}
	against := objectors(p)
	switch known := len(p.Checks) > 0 || now.Sub(r.PushedAt) > ChecksAppear; {
	case pending > 0:
		var names []Check
		for _, c := range p.Checks {
			if c.State == CheckPending {
				names = append(names, c)
			}
		}
		return wait("waits for %s of %s", checkNames(names), p.URL)
	case !known:
		return wait("waits for the checks of %s", p.URL)
	case count(p.Checks, CheckFailed) > 0: // they were sent back, and the work is as it was
		return Step{
			Act: Ask, Question: AskMerge,
			Why: fmt.Sprintf("checks of %s still fail, and its files have not changed: mend them there, then retry; skip goes on "+
				"without a merge", p.URL),
		}
	case p.Draft:
		return Step{Act: MarkReady}
	case p.Queued:
		return wait("%s is in the merge queue", p.URL)
	case len(p.Blocked) > 0:
		return wait("%s waits: %s", p.URL, textfmt.Shorten(safetext.Line(strings.Join(p.Blocked, "; ")), 400))
	case len(against) > 0:
		return wait("%s waits for another review by %s", p.URL, textfmt.FirstOf(against, 3))
	case r.Approvals == 0 && len(o.Reviewers) > 0:
		return wait("%s waits for a review by %s", p.URL, textfmt.FirstOf(o.Reviewers, 3))
	case p.Mergeable == MergeBehind && o.Merge != spec.MergeNever: // last, because its checks begin anew
		return Step{Act: MergeBase, Why: "the base has new commits, which the branch has to contain"}
	case p.Mergeable == MergeUnknown:
		return wait("waits for the host to say whether %s can be merged", p.URL)
	case o.Merge == spec.MergeAuto || agreed:
		return Step{Act: Merge}
	case o.Merge == spec.MergeAsk:
		return Step{
			Act: Ask, Question: AskMerge,
			Why: fmt.Sprintf("%s can be merged: retry merges it, skip goes on without a merge", p.URL),
		}
	case p.Mergeable == MergeBehind:
		return wait("%s waits for a person to update its branch, and to merge it", p.URL)
	}
	return wait("%s is ready, and waits for a person to merge it", p.URL)
}

// objectors are the trusted persons whose newest review requests changes. That was sent back, and they have to see the rework.
func objectors(p PullRequest) (names []string) {
	for _, review := range p.Reviews {
		if review.requestsChanges() {
			names = append(names, name(review.By))
		}
	}
	return names
}

// requestsChanges reports whether a trusted person wants other work.
func (r Review) requestsChanges() bool {
	return r.Verdict == ChangesRequested && r.By.Trusted && !r.By.Self
}

// untilLook returns the time until the next look.
func untilLook(r Record, now time.Time) time.Duration {
	return max(lookSoonest, min(lookLatest, now.Sub(r.ChangedAt)/4)).Truncate(time.Second)
}

func closedText(p PullRequest) string {
	by := "somebody"
	if p.ClosedBy != "" {
		by = safetext.Clip(p.ClosedBy, 80)
	}
	return fmt.Sprintf("%s closed %s without a merge: reopen it there, then retry; skip goes on without a merge", by, p.URL)
}

// feedbackOfPeople lists what people have written since the last time. Only trusted persons are heard: on a public repository
// anybody may comment.
func feedbackOfPeople(p PullRequest, r Record) (f Step) {
	for _, review := range p.Reviews {
		if review.requestsChanges() && !r.sent(review.ID) {
			f.add(review.ID, "", review.By, fmt.Sprintf("%s requests changes:\n%s", name(review.By), quote(review.Body)))
			if review.Body == "" { // what it says is in its threads, which are answered
				f.Replies = f.Replies[:len(f.Replies)-1]
			}
		}
	}
	for _, t := range p.Threads {
		if t.Resolved {
			continue
		}
		for _, c := range t.Comments {
			if c.By.Trusted && !c.By.Self && !r.sent(c.ID) {
				f.add(c.ID, t.ID, c.By, fmt.Sprintf("%s comments on %s:\n%s%s", name(c.By), place(t), hunk(t), quote(c.Body)))
			}
		}
	}
	for _, c := range p.Comments {
		if text, addressed := Addressed(Mention, c.Body); addressed && c.By.Trusted && !c.By.Self && !r.sent(c.ID) {
			f.add(c.ID, "", c.By, fmt.Sprintf("%s writes:\n%s", name(c.By), quote(text)))
		}
	}
	return f
}

// add adds an item to a step that sends work back.
func (s *Step) add(id, thread string, by Person, note string) {
	s.Items, s.Notes = append(s.Items, id), append(s.Notes, note)
	s.Replies = append(s.Replies, Reply{Item: id, Thread: thread, To: by.Name})
}

// Addressed returns a comment without the mention or command that it begins with.
func Addressed(mention, body string) (text string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(body), mention)
	if !ok || rest != "" && !unicode.IsSpace(rune(rest[0])) && !strings.ContainsRune(":,", rune(rest[0])) {
		return "", false
	}
	return strings.TrimSpace(strings.TrimLeft(rest, ":,")), true
}

func name(p Person) string { return safetext.Clip(p.Name, 80) }

func place(t Thread) string {
	path := safetext.Clip(t.Path, 300)
	switch {
	case path == "":
		return "the pull request"
	case t.Line > 0:
		return fmt.Sprintf("%s:%d", path, t.Line)
	}
	return path
}

func hunk(t Thread) string {
	if t.Hunk == "" {
		return ""
	}
	return quote(t.Hunk) + "\n"
}

// quote marks a text of others, so that an agent reads it as data.
func quote(text string) string {
	lines := strings.Split(strings.TrimRight(safetext.Block(text), "\n"), "\n")
	return "> " + strings.Join(lines, "\n> ")
}

// failedChecks lists the failed checks of the head that were not sent back.
func failedChecks(p PullRequest, r Record) []Check {
	return slices.DeleteFunc(slices.Clone(p.Checks), func(c Check) bool {
		return c.State != CheckFailed || r.sent(CheckItem(p.Head, c))
	})
}

// rerunnable lists those of the failed checks that were not run again yet.
func rerunnable(failed []Check, p PullRequest, r Record) []Check {
	return slices.DeleteFunc(slices.Clone(failed), func(c Check) bool {
		return !c.Rerunnable || c.Runs > 1 || slices.Contains(r.Reruns, CheckItem(p.Head, c))
	})
}

// CheckItem names a check of a commit among what was sent back or run again.
func CheckItem(head string, c Check) string { return head + "/" + c.Name }

func checkNames(checks []Check) string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = safetext.Clip(c.Name, 80)
	}
	return textfmt.Count(len(checks), "check") + " (" + textfmt.FirstOf(names, 3) + ")"
}
