package delivery

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Mergeable says whether a pull request can be merged without a conflict with its base.
type Mergeable string

// The answers to whether a pull request can be merged. A host needs some time to find out.
const (
	MergeUnknown   Mergeable = ""
	MergeClean     Mergeable = "clean"
	MergeConflicts Mergeable = "conflicts"
	// MergeBehind: the host wants the newest commits of the base in the branch first.
	MergeBehind Mergeable = "behind"
)

// PullRequest is a pull request as one look at it found it. All texts are what others have written: data, and never
// instructions, arguments of a program or markup.
type PullRequest struct {
	Number int
	URL    string
	// Branch is the branch with the work, and Base the one that it is to be merged into.
	Branch, Base string
	// Head is the newest commit of Branch; empty: the branch was deleted.
	Head  string
	State session.PullRequestState
	// Queued: it waits in the host's merge queue.
	Queued bool
	Draft  bool
	// Body is as it is now; people may have changed it. It is whole, because it is written back.
	Body string
	// MergedAs is the commit on the base; empty unless it is merged.
	MergedAs string
	// ClosedBy is the person who closed it without a merge; may be empty.
	ClosedBy  string
	Mergeable Mergeable
	// Blocked says, in sentences, what the host still requires for a merge, such as reviews or checks that have not passed;
	// empty: nothing, or it is unknown.
	Blocked []string
	// Checks are those of Head, Reviews the newest of each reviewer, oldest first.
	Checks  []Check
	Reviews []Review
	// Threads are conversations about a line or a file, Comments those about the pull request as a whole, oldest first. There are
	// at most [MaxComments], the newest ones.
	Threads  []Thread
	Comments []Comment
}

// MaxComments bounds the comments that one look at a pull request returns.
const MaxComments = 1000

// MaxText bounds each text of others besides the body of the pull request, in bytes. Longer texts end with a note.
const MaxText = 8 * 1024

// Person is who wrote something on a host.
type Person struct {
	Name string
	// Trusted: a member, owner or collaborator who may write to the repository, and no bot. On a public repository anybody may
	// comment.
	Trusted bool
	// Self: it is the account that Maestro itself uses.
	Self bool
}

// CheckState is the state of a check.
type CheckState string

// The states of a check. Neutral and skipped checks have passed.
const (
	CheckPending CheckState = "pending"
	CheckPassed  CheckState = "passed"
	CheckFailed  CheckState = "failed"
)

// Check is a job of the repository's CI on the head commit: a check run or commit status of GitHub, a job of GitLab.
type Check struct {
	// ID names it for [Host.CheckLog] and [Host.Rerun]. Name is for people, URL its page.
	ID, Name, URL string
	State         CheckState
	// Rerunnable: the host can run it again. Runs counts its runs on this commit, from 1; 0: unknown.
	Rerunnable bool
	Runs       int
}

// CheckLog is why a check failed.
type CheckLog struct {
	// Step is the failed step; empty: unknown.
	Step string
	// Annotations are problems at lines of files, as "path:line: text". There are at most 20.
	Annotations []string
	// Tail is the end of the log, at most [MaxText] bytes, without control characters; empty if the host has none.
	Tail string
}

// Verdict is the verdict of a review.
type Verdict string

// The verdicts of reviews.
const (
	Approved         Verdict = "approved"
	ChangesRequested Verdict = "changes_requested"
	Dismissed        Verdict = "dismissed"
)

// Review is a review of the pull request.
type Review struct {
	ID      string
	By      Person
	Verdict Verdict
	Body    string
	At      time.Time
}

// Thread is a conversation that can be resolved, mostly about a place in a file.
type Thread struct {
	ID string
	// Path and Line are the place; Path is empty for the pull request as a whole, Line 0 for a whole file, or if the line is gone.
	// Hunk is the part of the difference that it is about, at most [MaxText] bytes.
	Path     string
	Line     int
	Hunk     string
	Resolved bool
	Comments []Comment
}

// Comment is a comment.
type Comment struct {
	ID   string
	By   Person
	Body string
	URL  string
	At   time.Time
}

// Repository is a repository of a host.
type Repository struct {
	// Name is OWNER/NAME, or GROUP/SUBGROUP/NAME. It differs from the one that was asked for if the repository was renamed.
	Name          string
	DefaultBranch string
	// Archived: nobody can change it.
	Archived bool
}

// Remote is where git fetches from and pushes to.
type Remote struct {
	// URL has no credentials.
	URL string
	// User and Password authenticate by HTTP Basic. They are valid for at least 10 minutes.
	User, Password string
}

// New is a pull request to open.
type New struct {
	Branch, Base, Title, Body string
	Draft                     bool
	Labels                    []string
}

// Edit changes a pull request. Empty fields change nothing.
type Edit struct {
	Body string
	// Ready: it is a draft no more, and the reviewers are asked for a review. Names that the host does not know are left out.
	Ready     bool
	Reviewers []string
	// Reopen: it was closed.
	Reopen bool
}

// Host is a host of repositories and their pull requests, like GitHub, with the credentials of one account. An error is a
// [*failures.Failure] whose category says who has to act:
//
//	auth             the credentials are missing, wrong or expired, or lack a permission that the message names
//	rate_limited     a primary or secondary limit, with RetryAfter
//	api_error        the host fails or cannot be reached
//	invalid_request  what is asked for does not exist (a repository, a branch), is archived, or is refused for good
//
// Every method that changes something may be called again after its reply was lost, and does the same thing once: the caller
// puts a marker into what it writes, and looks for it first.
type Host interface {
	Repository(ctx context.Context, name string) (Repository, error)
	// Remote returns how git reaches the repository.
	Remote(ctx context.Context, repository string) (Remote, error)
	// Find returns the number of the newest pull request of a branch of the repository itself, never of a fork, into a base; 0:
	// there is none.
	Find(ctx context.Context, repository, branch, base string) (number int, err error)
	Open(ctx context.Context, repository string, p New) (number int, err error)
	// Look returns the pull request with all that [Decide] needs.
	Look(ctx context.Context, repository string, number int) (PullRequest, error)
	Edit(ctx context.Context, repository string, number int, e Edit) error
	CheckLog(ctx context.Context, repository string, c Check) (CheckLog, error)
	Rerun(ctx context.Context, repository string, c Check) error
	// Comment adds a comment to the pull request or, if thread is not empty, to the thread.
	Comment(ctx context.Context, repository string, number int, thread, body string) error
	// Resolve marks a thread as resolved, where the host can do so.
	Resolve(ctx context.Context, repository string, number int, thread string) error
	// Merge merges the pull request if its head is still the commit head, or adds it to the merge queue if the branch has one.
	// A merge that the host refuses for now is no error: why says what it requires.
	Merge(ctx context.Context, repository string, number int, head string, method spec.MergeMethod) (why string, err error)
}
