package codehost

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/httpclient"
)

// GitLabOptions say which GitLab there is, and whose credentials are used.
type GitLabOptions struct {
	// URL is the web address, with the path that it is served under. Empty: https://gitlab.com.
	URL string
	// Token is a personal, project or group access token with the scope api.
	Token string
	Clock func() time.Time
	// Version is the build's, for the User-Agent.
	Version string
	// Timeout bounds one request, the reading of its answer included. Zero: 30 s.
	Timeout time.Duration
}

const (
	publicGitLab  = "https://gitlab.com"
	gitlabTimeout = 30 * time.Second
)

// GitLab is a GitLab with the credentials of one account. It implements [delivery.Host], and may be used from several goroutines.
type GitLab struct {
	options GitLabOptions
	web     *url.URL
	api     *gitlab.Client
	// self is the id of the account; 0: not known yet.
	self atomic.Int64
	// bots says of members, by id, whether they are bots.
	bots sync.Map
}

var _ delivery.Host = (*GitLab)(nil)

// NewGitLab returns a driver. It sends no request.
func NewGitLab(o GitLabOptions) (*GitLab, error) {
	o.URL, o.Timeout = cmp.Or(o.URL, publicGitLab), cmp.Or(o.Timeout, gitlabTimeout)
	web, err := webAddress("GitLab", o.URL)
	if err != nil {
		return nil, err
	}
	if o.Token == "" {
		return nil, errors.New("GitLab needs an access token")
	}
	client := &http.Client{
		Transport: httpclient.Bounded{RoundTripper: http.DefaultTransport, Limit: maxAnswer}, Timeout: o.Timeout,
		CheckRedirect: httpclient.SameSite,
	}
	api, err := gitlab.NewClient(o.Token, gitlab.WithBaseURL(web.String()), gitlab.WithHTTPClient(client),
		gitlab.WithUserAgent("maestro/"+o.Version), gitlab.WithoutRetries(), gitlab.WithCustomLimiter(unlimited{}))
	return &GitLab{options: o, web: web, api: api}, err
}

// unlimited is a limiter that limits nothing: the caller waits, without a worker.
type unlimited struct{}

func (unlimited) Wait(context.Context) error { return nil }

// in makes the context of a request.
func in(ctx context.Context) gitlab.RequestOptionFunc { return gitlab.WithContext(ctx) }

var errEmpty = errors.New("it is empty")

// got is an answer with one thing.
func got[T any](thing *T, _ *gitlab.Response, err error) (*T, error) {
	if thing == nil && err == nil {
		err = errEmpty
	}
	return thing, err
}

// pages reads a list page by page, at most [maxPages] of them.
func pages[T any](read func(page gitlab.RequestOptionFunc) ([]*T, *gitlab.Response, error)) (all []*T, err error) {
	defer func() {
		if recover() != nil { // the library copies merge requests, and does not expect null
			err = errEmpty
		}
	}()
	var page gitlab.RequestOptionFunc
	for more, n := true, 0; more && n < maxPages; n++ {
		some, resp, err := read(page)
		if err != nil {
			return nil, err
		}
		all = append(all, present(some)...)
		page, more = gitlab.WithNext(resp)
	}
	return all, nil
}

// present leaves out what is null in a list.
func present[T any](list []*T) []*T {
	return slices.DeleteFunc(list, func(item *T) bool { return item == nil })
}

// Repository returns a project, also by a name that it had before. GitLab changes nothing by such a name.
func (g *GitLab) Repository(ctx context.Context, name string) (delivery.Repository, error) {
	p, err := got(g.api.Projects.GetProject(name, nil, in(ctx)))
	if err != nil {
		return delivery.Repository{}, g.fail(err, "read the project %s", name)
	}
	return delivery.Repository{Name: p.PathWithNamespace, DefaultBranch: p.DefaultBranch, Archived: p.Archived}, nil
}

// Remote returns how git reaches the project. GitLab takes an access token with any user.
func (g *GitLab) Remote(_ context.Context, repository string) (delivery.Remote, error) {
	return delivery.Remote{URL: g.web.JoinPath(repository + ".git").String(), User: "oauth2", Password: g.options.Token}, nil
}

// Find returns the newest merge request of a branch of the project itself into a base.
func (g *GitLab) Find(ctx context.Context, repository, branch, base string) (int, error) {
	number, err := g.find(ctx, repository, branch, base, "all")
	return number, g.fail(err, "list the merge requests of %s", repository)
}

// find returns the newest merge request of a branch in a state. Forks may have a branch of the same name.
func (g *GitLab) find(ctx context.Context, project, branch, base, state string) (int, error) {
	options := &gitlab.ListProjectMergeRequestsOptions{
		ListOptions: gitlab.ListOptions{PerPage: perPage}, SourceBranch: &branch, TargetBranch: &base, State: &state,
		Scope:   gitlab.Ptr("all"),
		OrderBy: gitlab.Ptr("created_at"), Sort: gitlab.Ptr("desc"),
	}
	all, err := pages(func(page gitlab.RequestOptionFunc) ([]*gitlab.BasicMergeRequest, *gitlab.Response, error) {
		return g.api.MergeRequests.ListProjectMergeRequests(project, options, page, in(ctx))
	})
	for _, mr := range all {
		if mr.SourceProjectID == mr.TargetProjectID && mr.SourceBranch == branch && mr.TargetBranch == base {
			return int(mr.IID), err
		}
	}
	return 0, err
}

// Open opens a merge request, or returns the one that is open.
func (g *GitLab) Open(ctx context.Context, repository string, n delivery.New) (int, error) {
	number, err := g.open(ctx, repository, n)
	if gitlab.HasStatusCode(err, http.StatusConflict) {
		found, failed := g.find(ctx, repository, n.Branch, n.Base, "opened")
		if number = found; number != 0 || failed != nil {
			err = failed
		}
	}
	return number, g.fail(err, "open a merge request in %s", repository)
}

func (g *GitLab) open(ctx context.Context, repository string, n delivery.New) (int, error) {
	made, err := got(g.api.MergeRequests.CreateMergeRequest(repository, &gitlab.CreateMergeRequestOptions{
		SourceBranch: &n.Branch, TargetBranch: &n.Base, Title: gitlab.Ptr(titleOf(n.Title, n.Draft)),
		Description: gitlab.Ptr(withoutActions(n.Body)), Labels: gitlab.Ptr(gitlab.LabelOptions(n.Labels)),
	}, in(ctx)))
	if err != nil {
		return 0, err
	}
	return int(made.IID), nil
}

// reviewers returns the ids of the reviewers that there are, and of the active accounts with some names.
func (g *GitLab) reviewers(ctx context.Context, are []*gitlab.BasicUser, names []string) ([]int64, error) {
	ids := []int64{}
	for _, u := range present(are) {
		ids = append(ids, u.ID)
	}
	for _, name := range names {
		name = strings.TrimPrefix(name, "@")
		users, _, err := g.api.Users.ListUsers(&gitlab.ListUsersOptions{Username: &name}, in(ctx))
		if err != nil {
			return nil, err
		}
		for _, u := range present(users) {
			if strings.EqualFold(u.Username, name) && u.State == "active" && !slices.Contains(ids, u.ID) {
				ids = append(ids, u.ID)
			}
		}
	}
	return ids, nil
}

var (
	// draftMark makes a merge request a draft, at the beginning of its title.
	draftMark = regexp.MustCompile(`(?i)^(?:\s*(?:draft:|\[draft\]|\(draft\)))+\s*`)
	// quickAction is a line that GitLab executes, such as "/merge". GitLab takes carriage returns out before it looks.
	quickAction = regexp.MustCompile(`(?m)^([ \t\r]*)/([A-Za-z\r][\w\r-]*)([ \t\r\f\v]|$)`)
)

// titleOf is a title with the mark of a draft, or without it.
func titleOf(title string, draft bool) string {
	title = cmp.Or(draftMark.ReplaceAllString(title, ""), "Merge request")
	if draft {
		return "Draft: " + title
	}
	return title
}

// withoutActions is a text in which GitLab executes nothing: it has what agents and logs say, and is sent with the account's
// rights. GitLab shows the same text.
func withoutActions(text string) string { return quickAction.ReplaceAllString(text, `$1\/$2$3`) }

// Edit changes a merge request. Reviewers that do not exist are left out.
func (g *GitLab) Edit(ctx context.Context, repository string, number int, e delivery.Edit) error {
	var change gitlab.UpdateMergeRequestOptions
	if e.Body != "" {
		change.Description = gitlab.Ptr(withoutActions(e.Body))
	}
	if e.Reopen {
		change.StateEvent = gitlab.Ptr("reopen")
	}
	if e.Ready { // the title has the mark of a draft, and all reviewers are set at once
		mr, err := got(g.api.MergeRequests.GetMergeRequest(repository, int64(number), nil, in(ctx)))
		if err != nil {
			return g.fail(err, "read merge request !%d of %s", number, repository)
		}
		change.Title = gitlab.Ptr(titleOf(mr.Title, false))
		if len(e.Reviewers) > 0 {
			ids, err := g.reviewers(ctx, mr.Reviewers, e.Reviewers)
			if err != nil {
				return g.fail(err, "find the reviewers of merge request !%d of %s", number, repository)
			}
			change.ReviewerIDs = &ids
		}
	}
	_, _, err := g.api.MergeRequests.UpdateMergeRequest(repository, int64(number), &change, in(ctx))
	return g.fail(err, "change merge request !%d of %s", number, repository)
}

// Comment adds a comment to the merge request, or to one of its threads.
func (g *GitLab) Comment(ctx context.Context, repository string, number int, thread, body string) (err error) {
	body = withoutActions(body)
	if thread == "" {
		note := &gitlab.CreateMergeRequestNoteOptions{Body: &body}
		_, _, err = g.api.Notes.CreateMergeRequestNote(repository, int64(number), note, in(ctx))
	} else {
		note := &gitlab.AddMergeRequestDiscussionNoteOptions{Body: &body}
		_, _, err = g.api.Discussions.AddMergeRequestDiscussionNote(repository, int64(number), thread, note, in(ctx))
	}
	return g.fail(err, "comment on merge request !%d of %s", number, repository)
}

// Resolve marks a thread as resolved.
func (g *GitLab) Resolve(ctx context.Context, repository string, number int, thread string) error {
	resolved := &gitlab.ResolveMergeRequestDiscussionOptions{Resolved: gitlab.Ptr(true)}
	_, _, err := g.api.Discussions.ResolveMergeRequestDiscussion(repository, int64(number), thread, resolved, in(ctx))
	return g.fail(err, "resolve a thread of merge request !%d of %s", number, repository)
}

// notNow are the statuses of a merge that GitLab refuses for now.
var notNow = []int{
	http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict,
	http.StatusUnprocessableEntity,
}

// Merge merges the merge request if its head is still a commit, or adds it to the merge train if the project has trains. Whether
// that makes a merge commit or rebases is the project's setting.
func (g *GitLab) Merge(
	ctx context.Context, repository string, number int, head string, method spec.MergeMethod,
) (why string, err error) {
	p, err := got(g.api.Projects.GetProject(repository, nil, in(ctx)))
	if err != nil {
		return "", g.fail(err, "read the project %s", repository)
	}
	var squash *bool // the project's default
	if method == spec.MethodSquash {
		squash = gitlab.Ptr(true)
	}
	if p.MergeTrainsEnabled {
		options := &gitlab.AddMergeRequestToMergeTrainOptions{SHA: &head, Squash: squash}
		_, _, err = g.api.MergeTrains.AddMergeRequestToMergeTrain(p.ID, int64(number), options, in(ctx))
	} else {
		options := &gitlab.AcceptMergeRequestOptions{SHA: &head, Squash: squash}
		_, _, err = g.api.MergeRequests.AcceptMergeRequest(p.ID, int64(number), options, in(ctx))
	}
	var refusal *gitlab.ErrorResponse
	if !errors.As(err, &refusal) || refusal.Response == nil || !slices.Contains(notNow, refusal.Response.StatusCode) {
		return "", g.fail(err, "merge merge request !%d of %s", number, repository)
	}
	why = "GitLab refuses the merge (" + g.said(refusal) + ")"
	if mr, err := got(g.api.MergeRequests.GetMergeRequest(p.ID, int64(number), nil, in(ctx))); err == nil {
		why = strings.Join(append(blocked(mr, nil), why), "; ")
	}
	return why, nil
}
