package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// PushTarget says where a session's work goes, and as which commit.
type PushTarget struct {
	// URL is the repository's address, without credentials: https, or http on a loopback address. User and Password
	// authenticate by HTTP Basic.
	URL, User, Password string
	// Branch is the branch of the session, and Base the one that it is to be merged into.
	Branch, Base string
	// Prefix is the path of the session's directory in the repository, empty or ending in a slash.
	Prefix string
	// StartedOn is the commit that the session was started on; it may be empty, or unknown to the remote.
	StartedOn string
	// Previous is the head that the branch had after the last push; empty: unknown.
	Previous string
	// MergeBase merges the head of Base into the branch.
	MergeBase bool
	// Resolved are the [ConflictError.Theirs] of all conflicts that the session was told of, oldest first: in conflicts with these
	// commits, the session's lines are taken.
	Resolved []string
	// Title begins the message of the commit. Empty: the session's requirement.
	Title string
	// Name, Mail and At are those of author and committer. A repeated push with the same ones makes the same commit. Mail must
	// not change during a session: Maestro's commits are recognised by it and their trailer.
	Name, Mail string
	At         time.Time
	// Dir is the directory, absolute, of a bare clone that is kept for the next push: one for each repository.
	Dir string
	// Environ is the environment in which git runs.
	Environ []string
}

// Pushed is a branch after a push.
type Pushed struct {
	// Head is the newest commit of the branch; empty: there is no branch, because the session has changed nothing.
	Head string
	// Base is the newest commit of the base.
	Base string
	// Unchanged: nothing was pushed, because the branch has all the work.
	Unchanged bool
	// Files are those that the session has changed.
	Files []File
}

// A ConflictError says that the work contradicts a commit of others. Nothing was pushed.
type ConflictError struct {
	// Paths are the files in conflict.
	Paths []string
	// Theirs is the commit of others: of the branch, or of the base.
	Theirs string
	// Diff is what the others have changed in these files, cut to about 16 KiB. It is a text of others.
	Diff string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the work and commit %s have changed the same lines of %s", Short(e.Theirs), textfmt.FirstOf(e.Paths, 5))
}

// A RewrittenError says that somebody has replaced the commits of the branch.
type RewrittenError struct{ Branch, Previous, Head string }

func (e *RewrittenError) Error() string {
	return fmt.Sprintf("somebody has rewritten branch %s: its head %s does not contain commit %s, which Maestro pushed", e.Branch,
		Short(e.Head), Short(e.Previous))
}

// A TakenError says that the branch is not the session's.
type TakenError struct {
	Branch string
	// Session is the one that it belongs to; empty: it has no work of a session.
	Session string
}

func (e *TakenError) Error() string {
	if e.Session == "" {
		return fmt.Sprintf("branch %s exists already, and Maestro did not make it", e.Branch)
	}
	return fmt.Sprintf("branch %s belongs to session %s", e.Branch, e.Session)
}

const (
	// maxPush bounds one push; credentials are valid that long.
	maxPush = 10 * time.Minute
	// pushTries is how often a push begins anew because others push at the same time.
	pushTries = 3
)

// errMoved: the branch has changed since it was fetched.
var errMoved = errors.New("the branch has changed meanwhile")

// pushing makes commits of a session's work on the branch of a remote repository.
type pushing struct {
	branching
	target PushTarget
	// base and head are the newest commits of the base and of the branch; head may be empty.
	base, head string
	// newest is the newest commit of the branch that is Maestro's, last the newest with work of the session; they may be empty. The
	// parent of the first with work is [branching.parent].
	newest, last string
}

// Push makes a commit of what a session has changed on its branch of a remote repository. The first one's parent is the commit
// that the session was started on, or else the head of the base; each later one's is the one before. What others have pushed
// to the branch is merged. A commit of others is never overwritten. Besides the errors above, it fails with a
// [*failures.Failure].
func Push(ctx context.Context, w Work, t PushTarget) (Pushed, error) {
	if err := t.check(); err != nil {
		return Pushed{}, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, maxPush, failures.Failf(failures.APIError,
		"the push to branch %s of %s took longer than %s", t.Branch, t.URL, maxPush))
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(t.Dir), 0o700); err != nil {
		return Pushed{}, fmt.Errorf("create the directory of clones: %w", err)
	}
	lock := flock.New(t.Dir+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(bounded, 100*time.Millisecond); err != nil {
		return Pushed{}, cmp.Or(context.Cause(bounded), err)
	}
	defer lock.Close() //nolint:errcheck // It was only a lock.
	for try := 1; ; try++ {
		p := &pushing{branching: branching{work: w, git: t.git(), ref: "refs/heads/" + t.Branch, prefix: t.Prefix}, target: t}
		out, err := p.push(bounded)
		if err == nil {
			return out, nil
		}
		if bounded.Err() != nil {
			return out, context.Cause(bounded)
		}
		again := try < pushTries && errors.Is(err, errMoved)
		err = t.failure(err)
		if f, ok := errors.AsType[*failures.Failure](err); ok && f.Category == failures.ResourceError && try == 1 {
			// A killed worker may leave locks and half a pack.
			again = os.RemoveAll(t.Dir) == nil
		}
		if !again {
			return out, err
		}
	}
}

func (p *pushing) push(ctx context.Context) (out Pushed, err error) {
	if err := os.MkdirAll(p.target.Dir, 0o700); err != nil {
		return out, fmt.Errorf("create the directory of a clone: %w", err)
	}
	if err := p.fetch(ctx); err != nil {
		return out, err
	}
	if err := p.look(ctx); err != nil {
		return out, err
	}
	out.Head, out.Base = p.head, p.base
	work, files, err := p.compose(ctx)
	out.Files = files
	if err != nil || work == p.parent && p.head == "" {
		out.Unchanged = true
		return out, err
	}
	others := slices.DeleteFunc(slices.Clone(p.target.Resolved), func(c string) bool {
		in := func(commit string) bool {
			return commit != "" && p.knows(ctx, c) && p.git.says(ctx, "merge-base", c, commit) == c
		}
		return in(p.newest) || !in(p.head) && !in(p.base)
	})
	if p.head != "" {
		others = append(others, p.head)
	}
	if p.target.MergeBase {
		others = append(others, p.base)
	}
	for _, theirs := range others {
		if work, err = p.merge(ctx, work, theirs); err != nil {
			return out, err
		}
	}
	if work == p.head {
		out.Unchanged = true
		return out, nil
	}
	said, err := p.git.run(ctx, nil, "push", "--porcelain", "--quiet", "--no-verify", "--force-with-lease="+p.ref+":"+p.head,
		"origin", work+":"+p.ref)
	if refused, ok := errors.AsType[*gitError](err); ok {
		if refused.said += "\n" + said; moved.MatchString(said) {
			err = errMoved
		}
	}
	if err == nil {
		out.Head = work
	}
	return out, err
}

// look finds out whose branch it is, and where the session's work is to be added.
func (p *pushing) look(ctx context.Context) error {
	p.parent = p.base
	if started := p.target.StartedOn; started != "" {
		if found, err := p.find(ctx, started); err != nil {
			return err
		} else if found {
			p.parent = started
		}
	}
	if p.head == "" {
		return nil
	}
	if err := p.own(ctx); err != nil {
		return err
	}
	// Maestro's commits of work follow each other. Others may have merged commits of other sessions.
	own, err := p.git.run(ctx, nil, "log", "--topo-order", "--no-merges", "--extended-regexp", "--format=%H %P",
		"--committer=<"+regexp.QuoteMeta(p.target.Mail)+">", "--grep=^"+sessionTrailer+": "+regexp.QuoteMeta(p.work.Session)+"$",
		p.head, "^"+p.base)
	if commits := strings.Fields(own); err == nil && len(commits) > 1 {
		p.last, p.parent = commits[0], commits[len(commits)-1]
	}
	return err
}

// own fails if the branch is not the session's, or not what Maestro has made it anymore.
func (p *pushing) own(ctx context.Context) error {
	newest, err := p.git.run(ctx, nil, "log", "-1", "--first-parent", "--grep=^"+sessionTrailer+": ",
		"--format=%H %(trailers:key="+sessionTrailer+",valueonly,separator=%x2C)", p.head, "^"+p.base)
	if err != nil {
		return err
	}
	previous, session := p.target.Previous, ""
	p.newest, session, _ = strings.Cut(newest, " ")
	if session != p.work.Session && (session != "" || previous == "") {
		return &TakenError{p.target.Branch, safetext.Clip(session, 100)}
	}
	if has, err := p.contains(ctx, p.head, previous); err != nil || has || previous == "" {
		return err
	}
	return &RewrittenError{p.target.Branch, previous, p.head}
}

// compose makes the commit of the session's work, unless the last one is as the work is.
func (p *pushing) compose(ctx context.Context) (commit string, files []File, err error) {
	var out Outcome
	made, err := p.trees(ctx, nil, &out)
	if err != nil {
		return "", nil, err
	}
	if i := slices.IndexFunc(out.Conflicts, func(c Conflict) bool { return c.Blocked }); i >= 0 {
		return "", nil, refusef("%s is a submodule with its own commits, which the work has to leave as it is",
			safetext.Name(p.prefix+out.Conflicts[i].Path))
	}
	if len(out.Conflicts) > 0 {
		if made.after, err = p.transfer(ctx, made); err != nil {
			return "", nil, err
		}
	}
	before, onto := made.parent, p.parent
	if p.last != "" {
		onto = p.last
		if before, err = p.git.run(ctx, nil, "rev-parse", p.last+"^{tree}"); err != nil {
			return "", nil, err
		}
	}
	if before == made.after {
		return onto, out.Files, nil
	}
	commit, err = commitTree(ctx, p.git, p.message(p.target.Title), made.after, onto)
	return commit, out.Files, err
}

// transfer merges the session's changes into a parent that has other contents than the session began with.
func (p *pushing) transfer(ctx context.Context, made trees) (tree string, err error) {
	began, err := commitTree(ctx, p.git, "before", made.before)
	ours, err2 := commitTree(ctx, p.git, "after", made.after, began)
	theirs, err3 := commitTree(ctx, p.git, "parent", made.parent, began)
	if err := errors.Join(err, err2, err3); err != nil {
		return "", err
	}
	return p.mergeTrees(ctx, ours, theirs, p.parent)
}
