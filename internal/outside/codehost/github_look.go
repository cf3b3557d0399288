package codehost

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v89/github"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// newest reads the last pages of a list that begins with the oldest.
func newest[T any](list func(github.ListOptions) ([]*T, *github.Response, error)) (items []*T, err error) {
	page := 1
	for range maxPages + 1 {
		got, resp, err := list(github.ListOptions{Page: page, PerPage: perPage})
		if err != nil {
			return nil, err
		}
		if page == 1 && resp.LastPage > maxPages {
			page = resp.LastPage - maxPages + 1
			continue
		}
		items = append(items, got...)
		if resp.NextPage == 0 {
			break
		}
		page++
	}
	return slices.DeleteFunc(items, func(item *T) bool { return item == nil }), nil
}

// look is one look at a pull request.
type look struct {
	*GitHub
	githubRepo
	number int
	login  string
	found  *github.PullRequest
	said   []said
	pr     delivery.PullRequest
}

// Look returns a pull request.
func (g *GitHub) Look(ctx context.Context, repository string, number int) (delivery.PullRequest, error) {
	l := &look{GitHub: g, number: number}
	err := g.do(ctx, repository, fmt.Sprintf("read pull request %d", number), func(ctx context.Context, r githubRepo) (err error) {
		l.githubRepo = r
		if l.login, err = g.self(ctx); err != nil {
			return err
		}
		if l.found, _, err = g.api.PullRequests.Get(ctx, r.owner, r.name, number); err != nil {
			return err
		}
		l.found = cmp.Or(l.found, &github.PullRequest{})
		l.describe()
		for _, read := range []func(context.Context) error{l.reviews, l.general, l.lines, l.checks, l.closed} {
			if err := read(ctx); err != nil {
				return err
			}
		}
		l.arrange()
		return l.more(ctx)
	})
	return l.pr, err
}

func (l *look) describe() {
	p := l.found
	l.pr = delivery.PullRequest{
		Number: p.GetNumber(), URL: cut(p.GetHTMLURL()), Branch: cut(p.GetHead().GetRef()), Base: cut(p.GetBase().GetRef()),
		Head: cut(p.GetHead().GetSHA()), State: session.PullOpen, Draft: p.GetDraft(), Body: p.GetBody(),
	}
	switch {
	case p.GetMerged():
		l.pr.State = session.PullMerged
		l.pr.MergedAs = cut(p.GetMergeCommitSHA())
	case p.GetState() == "closed":
		l.pr.State = session.PullClosed
	case p.GetMergeableState() == "behind":
		l.pr.Mergeable = delivery.MergeBehind
	case p.Mergeable != nil && p.GetMergeable():
		l.pr.Mergeable = delivery.MergeClean
	case p.Mergeable != nil || p.GetMergeableState() == "dirty":
		l.pr.Mergeable = delivery.MergeConflicts
	}
}

// closed reads who closed it.
func (l *look) closed(ctx context.Context) error {
	if l.pr.State != session.PullClosed {
		return nil
	}
	issue, _, err := l.api.Issues.Get(ctx, l.owner, l.name, l.number)
	l.pr.ClosedBy = cut(issue.GetClosedBy().GetLogin())
	return err
}

// person says who wrote something. Accounts that were deleted write as ghost.
func (l *look) person(u *github.User, association string) delivery.Person {
	name := cmp.Or(cut(u.GetLogin()), "ghost")
	may := association == "OWNER" || association == "MEMBER" || association == "COLLABORATOR"
	return delivery.Person{
		Name: name, Self: strings.EqualFold(name, l.login), Trusted: may && u.GetType() == "User",
	}
}

// reviews reads the verdicts. As on GitHub, a later comment does not end a verdict: reviews without one become comments.
func (l *look) reviews(ctx context.Context) error {
	all, err := newest(func(page github.ListOptions) ([]*github.PullRequestReview, *github.Response, error) {
		return l.api.PullRequests.ListReviews(ctx, l.owner, l.name, l.number, &page)
	})
	verdicts := map[string]delivery.Verdict{
		"APPROVED": delivery.Approved, "CHANGES_REQUESTED": delivery.ChangesRequested, "DISMISSED": delivery.Dismissed,
	}
	for _, r := range all {
		by := l.person(r.User, r.GetAuthorAssociation())
		verdict, ok := verdicts[r.GetState()]
		if !ok {
			if r.GetBody() != "" && r.GetState() == "COMMENTED" {
				c := l.comment(r.GetID(), r.User, r.GetAuthorAssociation(), r.GetBody(), r.GetHTMLURL(), r.GetSubmittedAt().Time)
				c.ID = "review-" + c.ID
				l.said = append(l.said, said{c, nil})
			}
			continue
		}
		l.pr.Reviews = slices.DeleteFunc(l.pr.Reviews, func(old delivery.Review) bool { return old.By.Name == by.Name })
		l.pr.Reviews = append(l.pr.Reviews, delivery.Review{
			ID: strconv.FormatInt(r.GetID(), 10), By: by, Verdict: verdict, Body: cut(r.GetBody()), At: r.GetSubmittedAt().Time,
		})
	}
	return err
}

// said is a comment: of a thread if place is set.
type said struct {
	delivery.Comment
	place *github.PullRequestComment
}

// general reads the comments on the pull request as a whole.
func (l *look) general(ctx context.Context) error {
	all, err := newest(func(page github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
		return l.api.Issues.ListComments(ctx, l.owner, l.name, l.number, &github.IssueListCommentsOptions{ListOptions: page})
	})
	for _, c := range all {
		comment := l.comment(c.GetID(), c.User, c.GetAuthorAssociation(), c.GetBody(), c.GetHTMLURL(), c.GetCreatedAt().Time)
		l.said = append(l.said, said{comment, nil})
	}
	return err
}

// lines reads the comments on lines and files.
func (l *look) lines(ctx context.Context) error {
	all, err := newest(func(page github.ListOptions) ([]*github.PullRequestComment, *github.Response, error) {
		o := &github.PullRequestListCommentsOptions{ListOptions: page}
		return l.api.PullRequests.ListComments(ctx, l.owner, l.name, l.number, o)
	})
	for _, c := range all {
		comment := l.comment(c.GetID(), c.User, c.GetAuthorAssociation(), c.GetBody(), c.GetHTMLURL(), c.GetCreatedAt().Time)
		l.said = append(l.said, said{comment, c})
	}
	return err
}

func (l *look) comment(id int64, u *github.User, association, body, url string, at time.Time) delivery.Comment {
	return delivery.Comment{
		ID: strconv.FormatInt(id, 10), By: l.person(u, association), Body: cut(body), URL: cut(url), At: at,
	}
}

// arrange keeps the newest comments, and makes threads of those about files.
func (l *look) arrange() {
	slices.SortStableFunc(l.said, func(a, b said) int { return a.At.Compare(b.At) })
	over := max(0, len(l.said)-delivery.MaxComments)
	threads := map[string]int{}
	for _, c := range l.said[over:] {
		if c.place == nil {
			l.pr.Comments = append(l.pr.Comments, c.Comment)
			continue
		}
		root := strconv.FormatInt(cmp.Or(c.place.GetInReplyTo(), c.place.GetID()), 10)
		at, ok := threads[root]
		if !ok {
			at = len(l.pr.Threads)
			threads[root] = at
			l.pr.Threads = append(l.pr.Threads, delivery.Thread{
				ID: root, Path: cut(c.place.GetPath()), Line: c.place.GetLine(), Hunk: cut(c.place.GetDiffHunk()),
			})
		}
		l.pr.Threads[at].Comments = append(l.pr.Threads[at].Comments, c.Comment)
	}
}
