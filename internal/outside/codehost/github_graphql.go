package codehost

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/go-github/v89/github"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// What REST does not have: threads that are resolved, the merge queue, and which checks and reviews are required.
const (
	lookQuery = `query MaestroLook($id: ID!, $number: Int!, $before: String) { node(id: $id) { ... on PullRequest {
  reviewDecision isInMergeQueue headRef { name }
  reviewThreads(last: 100, before: $before) {
    pageInfo { hasPreviousPage startCursor } nodes { id isResolved comments(first: 1) { nodes { fullDatabaseId } } } }
  commits(last: 1) { nodes { commit { statusCheckRollup { contexts(first: 100) { nodes {
    ... on CheckRun { name conclusion isRequired(pullRequestNumber: $number) }
    ... on StatusContext { context state isRequired(pullRequestNumber: $number) } } } } } } } } } }`
	queueQuery = `query MaestroQueue($id: ID!) { node(id: $id) { ... on PullRequest { isInMergeQueue isMergeQueueEnabled } } }`

	readyMutation = `mutation MaestroReady($id: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $id}) { clientMutationId } }`
	resolveMutation = `mutation MaestroResolve($id: ID!) { resolveReviewThread(input: {threadId: $id}) { clientMutationId } }`
	enqueueMutation = `mutation MaestroEnqueue($id: ID!, $head: GitObjectID!) {
  enqueuePullRequest(input: {pullRequestId: $id, expectedHeadOid: $head}) { clientMutationId } }`
)

// extras are what only GraphQL has of a pull request; empty where it is not permitted, or GitHub is too old.
type extras struct {
	ReviewDecision string
	IsInMergeQueue bool
	HeadRef        *struct{ Name string }
	ReviewThreads  struct {
		PageInfo struct {
			HasPreviousPage bool
			StartCursor     string
		}
		Nodes []thread
	}
	Commits struct {
		Nodes []struct {
			Commit struct {
				StatusCheckRollup struct{ Contexts struct{ Nodes []required } }
			}
		}
	}
}

type thread struct {
	ID         string
	IsResolved bool
	Comments   struct {
		Nodes []struct{ FullDatabaseID json.Number }
	}
}

// is reports whether a thread begins with a comment.
func (t thread) is(root string) bool {
	return len(t.Comments.Nodes) > 0 && t.Comments.Nodes[0].FullDatabaseID.String() == root
}

// required is a check run, with a conclusion, or a status, with a state, that may be required.
type required struct {
	Name, Conclusion, Context, State string
	IsRequired                       bool
}

// extras reads what only GraphQL has, with the newest threads; nil if there is nothing.
func (g *GitHub) extras(ctx context.Context, id string, number int) (whole *extras, err error) {
	variables := map[string]any{"id": id, "number": number}
	for range maxPages {
		var page struct{ Node *extras }
		err := g.query(ctx, lookQuery, variables, &page)
		if page.Node == nil {
			return whole, err
		}
		if whole != nil {
			page.Node.ReviewThreads.Nodes = append(page.Node.ReviewThreads.Nodes, whole.ReviewThreads.Nodes...)
		}
		whole = page.Node
		if !whole.ReviewThreads.PageInfo.HasPreviousPage {
			break
		}
		variables["before"] = whole.ReviewThreads.PageInfo.StartCursor
	}
	return whole, nil
}

// more adds what only GraphQL has.
func (l *look) more(ctx context.Context) error {
	e, err := l.extras(ctx, l.found.GetNodeID(), l.number)
	if err = l.fail(err, fmt.Sprintf("read the threads of pull request %d of %s", l.number, l.githubRepo)); mayPass(err) {
		return err
	}
	if e == nil {
		l.blocked(extras{})
		return nil
	}
	if e.HeadRef == nil {
		l.pr.Head = ""
	}
	l.pr.Queued = e.IsInMergeQueue
	for i := range l.pr.Threads {
		for _, t := range e.ReviewThreads.Nodes {
			l.pr.Threads[i].Resolved = l.pr.Threads[i].Resolved || t.IsResolved && t.is(l.pr.Threads[i].ID)
		}
	}
	l.blocked(*e)
	return nil
}

// blocked says what GitHub still requires for a merge.
func (l *look) blocked(e extras) {
	state := l.found.GetMergeableState()
	if l.pr.State != session.PullOpen || state == "clean" || state == "unstable" || state == "has_hooks" {
		return
	}
	say := func(format string, args ...any) {
		l.pr.Blocked = append(l.pr.Blocked, l.line(fmt.Sprintf(format, args...)))
	}
	switch e.ReviewDecision {
	case "REVIEW_REQUIRED":
		say("A required review is missing.")
	case "CHANGES_REQUESTED":
		say("A reviewer requests changes.")
	}
	for _, last := range e.Commits.Nodes {
		for _, c := range last.Commit.StatusCheckRollup.Contexts.Nodes {
			switch c.Conclusion + c.State {
			case "SUCCESS", "NEUTRAL", "SKIPPED":
				continue
			}
			if c.IsRequired {
				say("The required check %s has not passed.", c.Name+c.Context)
			}
		}
	}
	if state == "blocked" && len(l.pr.Blocked) == 0 {
		say("A rule of the branch %s is not fulfilled.", l.pr.Base)
	}
}

// Resolve marks a thread as resolved.
func (g *GitHub) Resolve(ctx context.Context, repository string, number int, thread string) error {
	doing := fmt.Sprintf("resolve a thread of pull request %d", number)
	return g.do(ctx, repository, doing, func(ctx context.Context, r githubRepo) error {
		p, _, err := g.api.PullRequests.Get(ctx, r.owner, r.name, number)
		if err != nil {
			return err
		}
		e, err := g.extras(ctx, p.GetNodeID(), number)
		if e == nil {
			return err
		}
		for _, t := range e.ReviewThreads.Nodes {
			if t.is(thread) && !t.IsResolved {
				return g.query(ctx, resolveMutation, map[string]any{"id": t.ID}, nil)
			}
		}
		return nil
	})
}

// Merge merges a pull request, or adds it to the merge queue of its base.
func (g *GitHub) Merge(
	ctx context.Context, repository string, number int, head string, method spec.MergeMethod,
) (why string, err error) {
	err = g.do(ctx, repository, fmt.Sprintf("merge pull request %d", number), func(ctx context.Context, r githubRepo) error {
		p, _, err := g.api.PullRequests.Get(ctx, r.owner, r.name, number)
		if err != nil || p.GetMerged() {
			return err
		}
		var queue struct {
			Node struct{ IsInMergeQueue, IsMergeQueueEnabled bool }
		}
		id := map[string]any{"id": p.GetNodeID()}
		// Where there is no answer, there is no queue either.
		if err := g.fail(g.query(ctx, queueQuery, id, &queue), "read the merge queue"); mayPass(err) || queue.Node.IsInMergeQueue {
			return err
		}
		if queue.Node.IsMergeQueueEnabled {
			id["head"] = head
			err = g.query(ctx, enqueueMutation, id, nil)
		} else {
			options := &github.PullRequestOptions{SHA: head, MergeMethod: string(method)}
			_, _, err = g.api.PullRequests.Merge(ctx, r.owner, r.name, number, "", options)
		}
		if answer, said := answerOf(err); answer != nil {
			switch answer.StatusCode {
			case http.StatusMethodNotAllowed, http.StatusConflict, http.StatusUnprocessableEntity:
				why = g.line(said)
				return nil
			}
		}
		return err
	})
	return why, err
}
