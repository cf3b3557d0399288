package codehost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// gitlabLook is one look at a merge request.
type gitlabLook struct {
	*GitLab
	project   string
	mr        *gitlab.MergeRequest
	approvals *gitlab.MergeRequestApprovals
	reviewers []*gitlab.MergeRequestReviewer
	// talk is what was written, oldest first.
	talk []*gitlab.Discussion
	// self is the id of the account, and trusted are the ids of those who may write to the project.
	self    int64
	trusted map[int64]bool
}

// Look returns the merge request with its checks, reviews, threads and comments.
func (g *GitLab) Look(ctx context.Context, repository string, number int) (delivery.PullRequest, error) {
	l := &gitlabLook{GitLab: g, project: repository}
	p, err := l.look(ctx, int64(number))
	return p, g.fail(err, "read merge request !%d of %s", number, repository)
}

// look reads a merge request. Its errors are those of the API.
func (l *gitlabLook) look(ctx context.Context, number int64) (p delivery.PullRequest, err error) {
	if l.mr, err = got(l.api.MergeRequests.GetMergeRequest(l.project, number, nil, in(ctx))); err != nil {
		return p, err
	}
	p = pullRequest(l.mr)
	// The merge request itself learns of a push later, and never that its branch is gone.
	branch, err := got(l.api.Branches.GetBranch(l.project, l.mr.SourceBranch, in(ctx)))
	switch {
	case errors.Is(err, gitlab.ErrNotFound):
	case err != nil:
		return p, err
	case branch.Commit != nil:
		p.Head = branch.Commit.ID
		if p.Checks, err = l.checks(ctx, p.Head); err != nil {
			return p, err
		}
	}
	if l.approvals, err = got(l.api.MergeRequestApprovals.GetConfiguration(l.project, number, in(ctx))); err != nil {
		return p, err
	}
	p.Mergeable, p.Blocked = mergeable(l.mr, p.Head), blocked(l.mr, l.approvals)
	if l.reviewers, _, err = l.api.MergeRequests.GetMergeRequestReviewers(l.project, number, in(ctx)); err != nil {
		return p, err
	}
	if err = l.read(ctx, number); err != nil {
		return p, err
	}
	verdicts := l.verdicts()
	l.trim()
	if err = l.people(ctx, verdicts); err != nil {
		return p, err
	}
	for _, v := range verdicts {
		v.By = l.person(v.account, v.By.Name)
		p.Reviews = append(p.Reviews, v.Review)
	}
	l.write(&p)
	return p, l.hunks(ctx, number, p.Threads)
}

// pullRequest is what a merge request says of itself.
func pullRequest(mr *gitlab.MergeRequest) delivery.PullRequest {
	p := delivery.PullRequest{
		Number: int(mr.IID), URL: mr.WebURL, Branch: mr.SourceBranch, Base: mr.TargetBranch, State: session.PullOpen, Draft: mr.Draft,
		// Trains and automatic merges both set it. A merge request is locked while it is merged.
		Queued: mr.MergeWhenPipelineSucceeds || mr.State == "locked",
		Body:   mr.Description,
	}
	switch mr.State {
	case "merged":
		p.State = session.PullMerged
		p.MergedAs = cmp.Or(mr.MergeCommitSHA, mr.SquashCommitSHA, mr.SHA) // a fast-forward makes no commit
	case "closed":
		p.State, p.ClosedBy = session.PullClosed, cmp.Or(mr.ClosedBy, &gitlab.BasicUser{}).Username
	}
	return p
}

// mergeable says whether the merge request has conflicts. Where the project permits only fast-forwards, a base that has moved has
// the same remedy: it is merged into the branch.
func mergeable(mr *gitlab.MergeRequest, head string) delivery.Mergeable {
	switch status := mr.DetailedMergeStatus; {
	case mr.SHA != head, slices.Contains(notChecked, status):
		return delivery.MergeUnknown
	case mr.HasConflicts, status == "conflict", strings.HasPrefix(status, "need_rebase"):
		return delivery.MergeConflicts
	}
	return delivery.MergeClean
}

// notChecked are the merge statuses while GitLab finds out.
var notChecked = []string{"", "unchecked", "checking", "preparing", "approvals_syncing"}

// blocked says what GitLab requires for a merge. Its merge statuses are English words, like "discussions_not_resolved".
func blocked(mr *gitlab.MergeRequest, approvals *gitlab.MergeRequestApprovals) (all []string) {
	status := mr.DetailedMergeStatus
	if approvals != nil && approvals.ApprovalsLeft > 0 {
		all = append(all, textfmt.Count(int(approvals.ApprovalsLeft), "more approval")+" required")
	}
	counted := status == "not_approved" && len(all) > 0
	if counted || status == "mergeable" || status == "not_open" || slices.Contains(notChecked, status) {
		return all
	}
	return append(all, "GitLab says "+strings.ReplaceAll(safetext.Clip(status, 80), "_", " "))
}

// verdict is a review and the id of its account.
type verdict struct {
	delivery.Review
	account int64
}

// verdicts lists the newest review of each reviewer, oldest first. GitLab tells in notes when it was: a person who requests
// changes again makes another review.
func (l *gitlabLook) verdicts() (all []verdict) {
	add := func(u *gitlab.BasicUser, v delivery.Verdict, did string) {
		review := verdict{delivery.Review{ID: fmt.Sprintf("%s/%d", v, u.ID), By: delivery.Person{Name: u.Username}, Verdict: v}, u.ID}
		for _, d := range l.talk {
			for _, n := range d.Notes {
				if n.System && n.Author.ID == u.ID && strings.HasPrefix(n.Body, did) {
					review.ID, review.At = fmt.Sprintf("%s/%d/%d", v, u.ID, n.ID), when(n.CreatedAt)
				}
			}
		}
		all = append(slices.DeleteFunc(all, func(v verdict) bool { return v.account == u.ID }), review)
	}
	for _, a := range present(l.approvals.ApprovedBy) {
		if a.User != nil {
			add(a.User, delivery.Approved, "approved this merge request")
		}
	}
	for _, r := range present(l.reviewers) {
		if r.User != nil && r.State == "requested_changes" {
			add(r.User, delivery.ChangesRequested, "requested changes")
		}
	}
	slices.SortStableFunc(all, func(a, b verdict) int { return a.At.Compare(b.At) })
	return all
}

func when(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// read reads the newest discussions. GitLab lists the oldest ones first, so that the last pages are read.
func (l *gitlabLook) read(ctx context.Context, number int64) error {
	last, more := int64(1), true
	for first, page := int64(1), int64(1); page <= last || last == 0 && more; page++ {
		if page == first+maxPages {
			break
		}
		options := &gitlab.ListMergeRequestDiscussionsOptions{ListOptions: gitlab.ListOptions{PerPage: perPage, Page: page}}
		some, resp, err := l.api.Discussions.ListMergeRequestDiscussions(l.project, number, options, in(ctx))
		if err != nil {
			return err
		}
		more = resp.NextPage != 0
		for _, d := range present(some) {
			d.Notes = present(d.Notes)
			l.talk = append(l.talk, d)
		}
		if page == 1 {
			if last = resp.TotalPages; last > maxPages { // 0: GitLab does not count so many
				l.talk, first = nil, last-maxPages+1
				page = first - 1
			}
		}
	}
	return nil
}

// trim keeps the newest notes of people, at most [delivery.MaxComments].
func (l *gitlabLook) trim() {
	var ids []int64
	for _, d := range l.talk {
		d.Notes = slices.DeleteFunc(d.Notes, func(n *gitlab.Note) bool { return n.System })
		for _, n := range d.Notes {
			ids = append(ids, n.ID)
		}
	}
	slices.Sort(ids)
	first := max(0, len(ids)-delivery.MaxComments)
	for _, d := range l.talk {
		d.Notes = slices.DeleteFunc(d.Notes, func(n *gitlab.Note) bool { return n.ID < ids[first] })
	}
}

// write writes threads and comments. A discussion about the merge request as a whole is a thread, too, if it can be resolved.
func (l *gitlabLook) write(p *delivery.PullRequest) {
	for _, d := range l.talk {
		t := delivery.Thread{ID: d.ID, Resolved: true}
		for _, n := range d.Notes {
			t.Comments = append(t.Comments, delivery.Comment{
				ID: strconv.FormatInt(n.ID, 10), By: l.person(n.Author.ID, n.Author.Username), Body: cut(n.Body),
				URL: fmt.Sprintf("%s#note_%d", l.mr.WebURL, n.ID), At: when(n.CreatedAt),
			})
			t.Resolved = t.Resolved && (n.Resolved || !n.Resolvable)
			if at := n.Position; at != nil {
				t.Path, t.Line = cut(cmp.Or(at.NewPath, at.OldPath)), 0
				if at.HeadSHA == l.mr.DiffRefs.HeadSha { // else the line has changed since
					t.Line = int(cmp.Or(at.NewLine, at.OldLine))
				}
			}
		}
		switch {
		case len(d.Notes) == 0:
		case d.IndividualNote:
			p.Comments = append(p.Comments, t.Comments...)
		default:
			p.Threads = append(p.Threads, t)
		}
	}
}

func (l *gitlabLook) person(account int64, name string) delivery.Person {
	return delivery.Person{Name: name, Trusted: l.trusted[account], Self: account == l.self}
}

// people finds out which of those who write may write to the project, and are no bots.
func (l *gitlabLook) people(ctx context.Context, verdicts []verdict) error {
	if l.self = l.GitLab.self.Load(); l.self == 0 {
		account, err := got(l.api.Users.CurrentUser(in(ctx)))
		if err != nil {
			return err
		}
		l.self = account.ID
		l.GitLab.self.Store(account.ID)
	}
	var ids []int64
	for _, v := range verdicts {
		ids = append(ids, v.account)
	}
	for _, d := range l.talk {
		for _, n := range d.Notes {
			ids = append(ids, n.Author.ID)
		}
	}
	slices.Sort(ids)
	l.trusted = map[int64]bool{}
	for some := range slices.Chunk(slices.Compact(ids), perPage) {
		options := &gitlab.ListProjectMembersOptions{ListOptions: gitlab.ListOptions{PerPage: perPage}, UserIDs: &some}
		members, err := pages(func(page gitlab.RequestOptionFunc) ([]*gitlab.ProjectMember, *gitlab.Response, error) {
			return l.api.ProjectMembers.ListAllProjectMembers(l.project, options, page, in(ctx))
		})
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.AccessLevel >= gitlab.DeveloperPermissions && m.State == "active" {
				if l.trusted[m.ID], err = l.human(ctx, m.ID); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// human reports whether an account is no bot. Those of access tokens and service accounts are bots.
func (g *GitLab) human(ctx context.Context, account int64) (bool, error) {
	if bot, ok := g.bots.Load(account); ok {
		return !bot.(bool), nil
	}
	u, err := got(g.api.Users.GetUser(account, gitlab.GetUsersOptions{}, in(ctx)))
	if err != nil {
		return false, err
	}
	g.bots.Store(account, u.Bot)
	return !u.Bot, nil
}

// hunks adds to open threads the part of the difference that they are about.
func (l *gitlabLook) hunks(ctx context.Context, number int64, threads []delivery.Thread) error {
	open := func(t delivery.Thread) bool { return t.Line > 0 && !t.Resolved }
	if !slices.ContainsFunc(threads, open) {
		return nil
	}
	options := &gitlab.ListMergeRequestDiffsOptions{ListOptions: gitlab.ListOptions{PerPage: perPage}}
	diffs, err := pages(func(page gitlab.RequestOptionFunc) ([]*gitlab.MergeRequestDiff, *gitlab.Response, error) {
		return l.api.MergeRequests.ListMergeRequestDiffs(l.project, number, options, page, in(ctx))
	})
	for _, d := range diffs {
		for i := range threads {
			if t := &threads[i]; open(*t) && t.Path == d.NewPath {
				t.Hunk = cut(hunkAt(d.Diff, t.Line))
			}
		}
	}
	return err
}

// hunkLines is how many lines a hunk has before the line of its thread.
const hunkLines = 10

// hunkAt is the part of a difference before and with a line of the new file.
func hunkAt(diff string, line int) string {
	lines := strings.Split(diff, "\n")
	next := 0 // the number of the line in the new file
	for i, text := range lines {
		var a, b, c int
		switch {
		case strings.HasPrefix(text, "@@ "):
			if n, _ := fmt.Sscanf(text, "@@ -%d,%d +%d", &a, &b, &c); n < 3 {
				_, _ = fmt.Sscanf(text, "@@ -%d +%d", &a, &c)
			}
			next = c
		case strings.HasPrefix(text, " "), strings.HasPrefix(text, "+"):
			if next == line {
				return strings.Join(lines[max(0, i-hunkLines):i+1], "\n")
			}
			next++
		}
	}
	return ""
}
