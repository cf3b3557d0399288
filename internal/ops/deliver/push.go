package deliver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/store"
)

// Author and committer of Maestro's commits.
const (
	authorName = "Maestro"
	authorMail = "maestro@localhost"
)

// push pushes the work to the branch. onBase: the newest commit of the base becomes part of it. A conflict with a commit of
// others sends work back.
func (r *run) push(ctx context.Context, onBase bool) error {
	remote, err := r.host.Remote(ctx, r.record.Repository)
	if err != nil {
		return err
	}
	c := r.order.Checkpoint
	c.Tree = r.job.Input
	to := apply.PushTarget{
		URL: remote.URL, User: remote.User, Password: remote.Password, Branch: r.record.Branch, Base: r.record.Base,
		Previous: r.record.Pushed, MergeBase: onBase, Resolved: r.record.Conflicts, Name: authorName, Mail: authorMail, At: c.CreatedAt,
		Title: r.Mask(delivery.Title(c.Requirement, r.order.Key.Session)),
		Dir:   filepath.Join(r.Dir, safetext.Portable(r.job.Agent+"/"+r.record.Repository)), Environ: r.Environ,
	}
	if r.order.Source != nil {
		to.StartedOn, to.Prefix = r.order.Source.Commit, r.order.Source.Prefix
	}
	if r.wanted().Retried && r.record.Asked == delivery.AskBranch { // whatever the branch is now
		to.Previous = r.record.AskedFor
	}
	work := apply.Work{StoredCheckpoint: store.StoredCheckpoint{Name: r.order.Head, Checkpoint: c}, Store: r.Store}
	pushed, err := apply.Push(ctx, work, to)
	if err != nil {
		return r.notPushed(ctx, err)
	}
	if pushed.Head == "" {
		return failures.Failf(failures.NeedsPerson, "there is nothing to deliver: the session has changed no file; skip goes on "+
			"without it")
	}
	r.log("pushed %s to %s", apply.Short(pushed.Head), r.record.Branch)
	if r.record.Pushed != pushed.Head {
		r.record.Pushed, r.record.PushedAt = pushed.Head, r.Clock().UTC()
	}
	r.record.Work, r.record.Head = string(r.job.Input), pushed.Head
	if r.record.Asked == delivery.AskBranch { // a person has agreed to one push
		r.record.Asked = ""
	}
	return r.save(ctx)
}

// notPushed decides what follows when the branch cannot be pushed.
func (r *run) notPushed(ctx context.Context, err error) error {
	if taken, ok := errors.AsType[*apply.TakenError](err); ok {
		return failures.Failf(failures.InvalidRequest, "%s; delete that branch, or deliver that session's work instead", taken)
	}
	if rewritten, ok := errors.AsType[*apply.RewrittenError](err); ok {
		r.record.Asked, r.record.AskedFor = delivery.AskBranch, rewritten.Head
		if err := r.save(ctx); err != nil {
			return err
		}
		return failures.Failf(failures.NeedsPerson, "%s; retry adds the work to what is there now",
			textfmt.Shorten(rewritten.Error(), session.MaxMessage-50))
	}
	conflict, ok := errors.AsType[*apply.ConflictError](err)
	if !ok {
		return err
	}
	reason := fmt.Sprintf("%s. Change these files so that they do what both want; the result replaces both. The others have "+
		"changed:\n> %s",
		conflict, strings.ReplaceAll(safetext.Block(textfmt.Shorten(conflict.Diff, session.MaxReasons-1500)), "\n", "\n> "))
	r.record.Conflicts = append(slices.Clone(r.record.Conflicts), conflict.Theirs)
	return r.recordSendBack(ctx, delivery.Step{}, []string{r.Mask(textfmt.Shorten(reason, session.MaxReasons-100))})
}
