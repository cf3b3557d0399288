package codehost

import (
	"cmp"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-github/v89/github"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/platform/httpclient"
)

// GitHubOptions say which GitHub there is, and whose credentials are used.
type GitHubOptions struct {
	// URL is the web address. Empty: https://github.com. Other addresses are GitHub Enterprise.
	URL string
	// Token is a personal access token. Either it or App is required.
	Token string
	App   *GitHubApp
	Clock func() time.Time
	// Version is the build's, for the User-Agent.
	Version string
	// Timeout bounds one request. Zero: 30 s.
	Timeout time.Duration
}

// GitHubApp are the credentials of a GitHub App.
type GitHubApp struct {
	ID int64
	// Installation is the id of the installation. 0: the one of the repository.
	Installation int64
	// Key is the private key as PEM.
	Key []byte
}

const (
	publicGitHub  = "https://github.com"
	githubTimeout = 30 * time.Second
)

// GitHub is a GitHub with the credentials of one account. It implements [delivery.Host], and may be used from several goroutines.
type GitHub struct {
	options GitHubOptions
	web     *url.URL
	// graphql is the address of the GraphQL API.
	graphql string
	api     *github.Client
	// elsewhere sends no credentials.
	elsewhere *http.Client
	transport *githubTransport
	key       *rsa.PrivateKey

	// apps are the app's installations.
	apps installations
	mu   sync.Mutex
	// login is the account's own.
	login string
}

var _ delivery.Host = (*GitHub)(nil)

// NewGitHub returns a driver. It sends no request.
func NewGitHub(o GitHubOptions) (*GitHub, error) {
	o.URL = strings.TrimRight(cmp.Or(o.URL, publicGitHub), "/")
	o.Timeout = cmp.Or(o.Timeout, githubTimeout)
	web, err := webAddress("GitHub", o.URL)
	if err != nil {
		return nil, err
	}
	if (o.Token == "") == (o.App == nil) {
		return nil, errors.New("GitHub needs either a token or an app")
	}
	g := &GitHub{options: o, web: web}
	g.apps = installations{of: map[githubRepo]int64{}, tokens: map[int64]*github.InstallationToken{}}
	if o.App != nil {
		if g.key, err = jwt.ParseRSAPrivateKeyFromPEM(o.App.Key); err != nil {
			return nil, errors.New("the private key of the GitHub App is not an RSA key as PEM: download it from the app's settings page")
		}
	}
	api := web.JoinPath("api", "v3/")
	g.graphql = web.JoinPath("api", "graphql").String()
	if host := strings.ToLower(web.Host); host == "github.com" || strings.HasSuffix(host, ".ghe.com") {
		api = &url.URL{Scheme: "https", Host: "api." + host, Path: "/"}
		g.graphql = api.JoinPath("graphql").String()
	}
	g.transport = &githubTransport{
		github: g, host: api.Host,
		next: httpclient.Bounded{RoundTripper: http.DefaultTransport.(*http.Transport).Clone(), Limit: maxAnswer},
	}
	g.elsewhere = &http.Client{Timeout: o.Timeout, CheckRedirect: stay}
	base := api.String()
	g.api, err = github.NewClient(
		github.WithHTTPClient(&http.Client{Transport: g.transport, Timeout: o.Timeout, CheckRedirect: httpclient.SameSite}),
		github.WithURLs(&base, nil), github.WithUserAgent("maestro/"+o.Version), github.WithDisableRateLimitCheck(),
	)
	return g, err
}

// stay follows no redirect.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// githubRepo is the repository of a call.
type githubRepo struct{ owner, name string }

func (r githubRepo) String() string { return r.owner + "/" + r.name }

// repositoryKey is the context's key of the repository, which decides on the installation of the app.
type repositoryKey struct{}

var githubName = regexp.MustCompile(`^\w[\w.-]{0,99}/[\w.-]{1,100}$`)

// do makes a call about a repository. Its error says that GitHub cannot do it.
func (g *GitHub) do(ctx context.Context, repository, doing string, call func(context.Context, githubRepo) error) error {
	owner, name, _ := strings.Cut(repository, "/")
	if !githubName.MatchString(repository) || strings.Trim(name, ".") == "" {
		return failures.Failf(failures.InvalidRequest, "%q is no repository of GitHub; write it as OWNER/NAME", g.line(repository))
	}
	r := githubRepo{owner, name}
	return g.fail(call(context.WithValue(ctx, repositoryKey{}, r), r), doing+" of "+repository)
}

// Repository returns a repository, also by a name that it had before.
func (g *GitHub) Repository(ctx context.Context, name string) (found delivery.Repository, err error) {
	err = g.do(ctx, name, "read the settings", func(ctx context.Context, r githubRepo) error {
		got, _, err := g.api.Repositories.Get(ctx, r.owner, r.name)
		found = delivery.Repository{
			Name: cut(got.GetFullName()), DefaultBranch: cut(got.GetDefaultBranch()), Archived: got.GetArchived() || got.GetDisabled(),
		}
		return err
	})
	return found, err
}

// Remote returns how git reaches the repository.
func (g *GitHub) Remote(ctx context.Context, repository string) (remote delivery.Remote, err error) {
	err = g.do(ctx, repository, "give a token for the files", func(ctx context.Context, r githubRepo) error {
		remote = delivery.Remote{URL: g.web.JoinPath(r.owner, r.name+".git").String(), User: "x-access-token"}
		remote.Password, err = g.token(ctx)
		return err
	})
	return remote, err
}

// Find returns the newest pull request of a branch of the repository itself into a base.
func (g *GitHub) Find(ctx context.Context, repository, branch, base string) (number int, err error) {
	present, err := g.Repository(ctx, repository) // GitHub filters by the owner's present name
	if err != nil {
		return 0, err
	}
	err = g.do(ctx, present.Name, "list the pull requests", func(ctx context.Context, r githubRepo) error {
		all, _, err := g.api.PullRequests.List(ctx, r.owner, r.name, &github.PullRequestListOptions{
			State: "all", Head: r.owner + ":" + branch, Base: base, Sort: "created", Direction: "desc",
			ListOptions: github.ListOptions{PerPage: perPage},
		})
		i := slices.IndexFunc(all, func(p *github.PullRequest) bool {
			return p.GetHead().GetRef() == branch && p.GetBase().GetRef() == base &&
				p.GetHead().GetRepo().GetID() == p.GetBase().GetRepo().GetID()
		})
		if i >= 0 {
			number = all[i].GetNumber()
		}
		return err
	})
	return number, err
}

// Open opens a pull request, or returns the one that is there. Labels that do not exist are left out.
func (g *GitHub) Open(ctx context.Context, repository string, p delivery.New) (number int, err error) {
	err = g.do(ctx, repository, "open a pull request", func(ctx context.Context, r githubRepo) error {
		if number, err = g.create(ctx, r, p); err != nil {
			return err
		}
		if len(p.Labels) > 0 {
			_, _, err := g.api.Issues.AddLabelsToIssue(ctx, r.owner, r.name, number, p.Labels)
			if err := g.fail(err, "label a pull request"); mayPass(err) {
				return err
			}
		}
		return nil
	})
	return number, err
}

func (g *GitHub) create(ctx context.Context, r githubRepo, p delivery.New) (int, error) {
	made, _, err := g.api.PullRequests.Create(ctx, r.owner, r.name, &github.NewPullRequest{
		Title: &p.Title, Head: &p.Branch, Base: &p.Base, Body: &p.Body, Draft: &p.Draft,
	})
	switch {
	case p.Draft && says(err, http.StatusUnprocessableEntity, "draft"): // the repository permits none
		p.Draft = false
		return g.create(ctx, r, p)
	case says(err, http.StatusUnprocessableEntity, "already exists"):
		if number, err := g.Find(ctx, r.String(), p.Branch, p.Base); number != 0 || err != nil {
			return number, err
		}
	}
	return made.GetNumber(), err
}

// Edit changes a pull request.
func (g *GitHub) Edit(ctx context.Context, repository string, number int, e delivery.Edit) error {
	return g.do(ctx, repository, fmt.Sprintf("change pull request %d", number), func(ctx context.Context, r githubRepo) error {
		if e.Body != "" || e.Reopen {
			change := &github.PullRequest{Body: set(e.Body)}
			if e.Reopen {
				change.State = set("open")
			}
			if _, _, err := g.api.PullRequests.Edit(ctx, r.owner, r.name, number, change); err != nil {
				return err
			}
		}
		if !e.Ready {
			return nil
		}
		p, _, err := g.api.PullRequests.Get(ctx, r.owner, r.name, number)
		if err != nil {
			return err
		}
		if p.GetDraft() {
			if err := g.query(ctx, readyMutation, map[string]any{"id": p.GetNodeID()}, nil); err != nil {
				return err
			}
		}
		return g.askReviewers(ctx, r, number, e.Reviewers)
	})
}

// askReviewers asks for reviews, one by one, because a name that does not exist makes GitHub refuse all.
func (g *GitHub) askReviewers(ctx context.Context, r githubRepo, number int, names []string) error {
	for _, name := range names {
		ask := github.ReviewersRequest{Reviewers: []string{name}}
		if _, team, ok := strings.Cut(name, "/"); ok {
			ask = github.ReviewersRequest{TeamReviewers: []string{team}}
		}
		_, _, err := g.api.PullRequests.RequestReviewers(ctx, r.owner, r.name, number, ask)
		if err := g.fail(err, "ask for a review"); mayPass(err) {
			return err
		}
	}
	return nil
}

// set is a field to change; nil: it stays.
func set(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Comment adds a comment to the pull request, or to one of its threads.
func (g *GitHub) Comment(ctx context.Context, repository string, number int, thread, body string) error {
	doing := fmt.Sprintf("comment on pull request %d", number)
	return g.do(ctx, repository, doing, func(ctx context.Context, r githubRepo) (err error) {
		if thread == "" {
			_, _, err = g.api.Issues.CreateComment(ctx, r.owner, r.name, number, &github.IssueComment{Body: &body})
		} else {
			_, _, err = g.api.PullRequests.CreateCommentInReplyTo(ctx, r.owner, r.name, number, body, idOf(thread))
		}
		return err
	})
}

// idOf is an id that a look has returned. There is none that is 0.
func idOf(text string) int64 {
	id, _ := strconv.ParseInt(text, 10, 64)
	return id
}
