package delivery

import (
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// Record is what is known of a delivery between two looks at its pull request. It is a row of the database, by session and
// phase.
type Record struct {
	// PullRequest is how the pull request stands; without a number and URL: it is not open yet. Its checks are those of Head, and
	// its approvals those of trusted persons.
	session.PullRequest
	// Ordered is the repository and the base that the team named.
	Ordered      string
	Branch, Base string
	// Pushed is the newest commit that Maestro has pushed, Work the manifest that it has, and Head the newest commit of the branch.
	Pushed, Work, Head string
	// Unanswered counts the comments and reviews that are to be sent back.
	Unanswered int
	// Sending is the feedback that the pass Sending.Pass has sent back: a repetition of that pass, whose reply was lost, sends the
	// same.
	Sending Sending
	// SentBack are the ids of what was sent back as feedback, so that it is sent back once. At most [maxSentBack], the newest.
	SentBack []string
	// SentFor is the commit that was pushed when feedback was sent back last.
	SentFor string
	// Replies are threads and comments that are to be answered when their rework is pushed.
	Replies []Reply
	// Reruns are the checks, as COMMIT/NAME, that Maestro has had run again.
	Reruns []string
	// Conflicts are commits of others that contradicted the work. It was done again since, so that its version is right.
	Conflicts []string
	// AskedFor is the commit for which a person was asked to decide, and Asked what was asked.
	AskedFor string
	Asked    Question
	// PushedAt is when Pushed was pushed.
	PushedAt time.Time
}

// Sending is feedback of one pass.
type Sending struct {
	Pass    int      `json:"pass,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
}

// Question is what a person was asked to decide about a pull request.
type Question string

// The questions to a person.
const (
	AskMerge    Question = "merge"
	AskReopen   Question = "reopen"
	AskBranch   Question = "branch"
	AskConflict Question = "conflict"
)

// Reply is a thread or a comment that has to be answered.
type Reply struct {
	// Item is the id of what is answered. Thread is its thread; empty: it is a comment on, or a review of, the whole pull request.
	Item   string `json:"item"`
	Thread string `json:"thread,omitempty"`
	// To is the person, for a mention.
	To string `json:"to"`
}

const maxSentBack = 2000

// sent reports whether an item was sent back.
func (r Record) sent(id string) bool { return slices.Contains(r.SentBack, id) }

// Sends notes the items of a step that a pass sends back for these reasons, and what has to be answered.
func (r *Record) Sends(pass int, reasons []string, s Step) {
	r.Sending, r.SentFor = Sending{pass, reasons}, r.Pushed
	r.SentBack = append(slices.Clone(r.SentBack), s.Items...)
	r.SentBack = r.SentBack[max(0, len(r.SentBack)-maxSentBack):]
	r.Replies = append(slices.Clone(r.Replies), s.Replies...)
}

// Saw takes over what a look of a session has found. What Maestro has answered was sent back, also if the database does not
// know, because it was restored.
func (r *Record) Saw(sessionID string, p PullRequest, now time.Time) {
	before := *r
	for _, item := range answeredItems(sessionID, p) {
		if !r.sent(item) {
			r.SentBack = append(slices.Clone(r.SentBack), item)
		}
	}
	r.Number, r.URL, r.State, r.Head, r.Draft, r.Base = p.Number, p.URL, p.State, p.Head, p.Draft, p.Base
	r.Unanswered = len(feedbackOfPeople(p, *r).Items)
	r.ChecksPassed, r.ChecksFailed = count(p.Checks, CheckPassed), count(p.Checks, CheckFailed)
	r.ChecksPending = count(p.Checks, CheckPending)
	r.Approvals = 0
	for _, review := range p.Reviews {
		if review.Verdict == Approved && review.By.Trusted && !review.By.Self { // on a public repository anybody may approve
			r.Approvals++
		}
	}
	if before.State != r.State || before.Head != r.Head || before.Draft != r.Draft || before.Approvals != r.Approvals ||
		before.Unanswered != r.Unanswered || before.ChecksPassed != r.ChecksPassed || before.ChecksFailed != r.ChecksFailed {
		r.ChangedAt = now
	}
}

func count(checks []Check, in CheckState) (n int) {
	for _, c := range checks {
		if c.State == in {
			n++
		}
	}
	return n
}
