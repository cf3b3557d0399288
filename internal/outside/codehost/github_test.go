package codehost_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/outside/codehost"
	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
)

const shop = "acme/shop"

// site is a GitHub with one repository, which has the branches main and work.
type site struct {
	*githubtest.Server
	t    *testing.T
	repo *githubtest.Repository
	git  *gittest.Server
}

func newSite(t *testing.T, o githubtest.Options) *site {
	t.Helper()
	s := &site{t: t, git: gittest.New(t)}
	s.git.Create(shop, map[string]string{"README": "one"})
	s.commit("work", "shout.go", "package shout")
	o.Dir = s.git.Dir
	s.Server = githubtest.New(t, o)
	s.repo = s.Create(shop)
	return s
}

// commit adds a file to a branch.
func (s *site) commit(branch, path, content string) {
	s.git.Commit(shop, branch, map[string]string{path: content}, "x")
}

func (s *site) options() codehost.GitHubOptions {
	return codehost.GitHubOptions{URL: s.URL, Token: githubtest.Token, Clock: time.Now, Version: "test"}
}

func (s *site) driver() *codehost.GitHub { return s.driverOf(s.options()) }

func (s *site) driverOf(o codehost.GitHubOptions) *codehost.GitHub {
	s.t.Helper()
	g, err := codehost.NewGitHub(o)
	require.NoError(s.t, err)
	return g
}

func (s *site) look(g *codehost.GitHub, number int) delivery.PullRequest {
	s.t.Helper()
	p, err := g.Look(s.t.Context(), shop, number)
	require.NoError(s.t, err)
	return p
}

func (s *site) log(g *codehost.GitHub, c delivery.Check) delivery.CheckLog {
	s.t.Helper()
	log, err := g.CheckLog(s.t.Context(), shop, c)
	require.NoError(s.t, err)
	return log
}

func (s *site) merge(g *codehost.GitHub, number int, head string, method spec.MergeMethod) (why string) {
	s.t.Helper()
	why, err := g.Merge(s.t.Context(), shop, number, head, method)
	require.NoError(s.t, err)
	return why
}

func (s *site) repository(g *codehost.GitHub) delivery.Repository {
	s.t.Helper()
	r, err := g.Repository(s.t.Context(), shop)
	require.NoError(s.t, err)
	return r
}

func (s *site) find(g *codehost.GitHub) int {
	s.t.Helper()
	number, err := g.Find(s.t.Context(), shop, "work", "main")
	require.NoError(s.t, err)
	return number
}

func (s *site) remote(g *codehost.GitHub) delivery.Remote {
	s.t.Helper()
	remote, err := g.Remote(s.t.Context(), shop)
	require.NoError(s.t, err)
	return remote
}

var work = delivery.New{Branch: "work", Base: "main", Title: "Shout", Body: "What was done."}

func open(s *site, g *codehost.GitHub) int {
	s.t.Helper()
	number, err := g.Open(s.t.Context(), shop, work)
	require.NoError(s.t, err)
	return number
}

// requireFailure requires a failure of a category whose text has no credentials.
func requireFailure(t *testing.T, err error, c failures.Category, words ...string) *failures.Failure {
	t.Helper()
	var f *failures.Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, c, f.Category, f.Message)
	require.NotContains(t, f.Message, githubtest.Token)
	require.NotContains(t, f.Message, "ghs_")
	for _, w := range words {
		require.Contains(t, f.Message, w)
	}
	return f
}

func TestAPullRequestFromOpenToMerged(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g, ctx := s.driver(), t.Context()
	require.Equal(t, delivery.Repository{Name: shop, DefaultBranch: "main"}, s.repository(g))
	remote := s.remote(g)
	require.Equal(t, delivery.Remote{URL: s.URL + "/acme/shop.git", User: "x-access-token", Password: githubtest.Token}, remote)

	number := s.find(g)
	require.Zero(t, number)
	number, err := g.Open(ctx, shop, delivery.New{
		Branch: "work", Base: "main", Title: "Shout", Body: "What was done.", Draft: true, Labels: []string{"maestro"},
	})
	require.NoError(t, err)
	require.Equal(t, number, s.find(g))
	made := s.repo.Pulls()[0]
	require.Equal(t, []string{"maestro"}, made.Labels)

	p := s.look(g, number)
	require.Equal(t, delivery.PullRequest{
		Number: number, URL: s.URL + "/acme/shop/pull/1", Branch: "work", Base: "main", Head: s.repo.Head("work"),
		State: session.PullOpen,
		Draft: true, Body: "What was done.", Mergeable: delivery.MergeClean,
	}, p)

	reviewers := []string{"ben", "nobody-such", "acme/owners"}
	require.NoError(t, g.Edit(ctx, shop, number, delivery.Edit{Body: "What was done, louder.", Ready: true, Reviewers: reviewers}))
	made = s.repo.Pulls()[0]
	require.Equal(t, []string{"ben"}, made.Reviewers, "one who cannot be asked is left out")
	require.Equal(t, []string{"owners"}, made.TeamReviewers)
	require.NoError(t, g.Edit(ctx, shop, number, delivery.Edit{Ready: true}), "it is none already")
	require.NoError(t, g.Comment(ctx, shop, number, "", "progress"))
	p = s.look(g, number)
	require.Equal(t, "What was done, louder.", p.Body)
	require.False(t, p.Draft)
	require.True(t, p.Comments[0].By.Self)

	require.Empty(t, s.merge(g, number, p.Head, spec.MethodMerge))
	p = s.look(g, number)
	require.Equal(t, session.PullMerged, p.State)
	require.Equal(t, s.repo.Head("main"), p.MergedAs)
	require.Equal(t, "package shout", s.git.Git(shop, "show", "main:shout.go"))
	s.repo.DeleteBranch("work")
	require.Empty(t, s.look(g, number).Head)
}

func TestOpenIsDoneOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	s.repo.PermitNoDrafts()
	g := s.driver()
	s.Fail(githubtest.Fault{Lost: true}.On("POST", "/pulls").Once())
	with := work
	with.Draft, with.Labels = true, []string{"maestro"}
	_, err := g.Open(t.Context(), shop, with) // refused as a draft, and then lost
	if err == nil {
		_, err = g.Open(t.Context(), shop, with)
	}
	requireFailure(t, err, failures.APIError, "cannot open a pull request of acme/shop")
	number, err := g.Open(t.Context(), shop, with)
	require.NoError(t, err)
	all := s.repo.Pulls()
	require.Len(t, all, 1)
	require.Equal(t, number, all[0].Number)
	require.False(t, all[0].Draft)
	require.Equal(t, []string{"maestro"}, all[0].Labels, "what was not done before is done")

	_, err = g.Open(t.Context(), shop, delivery.New{Branch: "main", Base: "main", Title: "x"})
	requireFailure(t, err, failures.InvalidRequest, "422: Validation Failed; No commits between main and main")
}

func TestLabelsThatWaitAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g := s.driver()
	with := work
	with.Labels = []string{"maestro"}
	s.Fail(githubtest.BadGateway().On("POST", "/labels").Once())
	_, err := g.Open(t.Context(), shop, with)
	requireFailure(t, err, failures.APIError)
	s.Mend()
	number, err := g.Open(t.Context(), shop, with)
	require.NoError(t, err)
	s.repo.Deny("POST /pulls/{number}/requested_reviewers", "pull_requests=write")
	err = g.Edit(t.Context(), shop, number, delivery.Edit{Ready: true, Reviewers: []string{"ben"}})
	require.NoError(t, err, "without a reviewer it is still a pull request")
	require.Equal(t, []string{"maestro"}, s.repo.Pulls()[0].Labels)
}

func TestARepositoryThatWasRenamed(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g, ctx := s.driver(), t.Context()
	number := open(s, g)
	s.repo.Rename("globex/store")
	require.Equal(t, "globex/store", s.repository(g).Name)
	require.Equal(t, number, s.find(g))
	require.NoError(t, g.Comment(ctx, shop, number, "", "still here"), "a redirect of a POST keeps its body")
	require.Equal(t, "still here", s.look(g, number).Comments[0].Body)

	s.repo.Archive()
	require.True(t, s.repository(g).Archived)
	requireFailure(t, g.Comment(ctx, shop, number, "", "x"), failures.InvalidRequest, "Repository was archived so is read-only")
}

func TestMerge(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{MergeableLate: true})
	g, ctx := s.driver(), t.Context()
	number := open(s, g)
	p := s.look(g, number)
	require.Equal(t, delivery.MergeClean, p.Mergeable)
	require.Contains(t, s.merge(g, number, s.repo.Head("main"), spec.MethodMerge), "Head branch was modified")
	s.repo.PermitMethods("squash")
	require.Equal(t, "Merge merges are not allowed on this repository.", s.merge(g, number, p.Head, spec.MethodMerge))

	s.commit("main", "shout.go", "package other")
	require.Equal(t, delivery.MergeUnknown, s.look(g, number).Mergeable, "GitHub needs some time to find out")
	require.Equal(t, delivery.MergeConflicts, s.look(g, number).Mergeable)
	require.Equal(t, "Pull Request is not mergeable", s.merge(g, number, p.Head, spec.MethodSquash))

	s.commit("main", "shout.go", "package shout")
	s.look(g, number)
	s.Fail(githubtest.Fault{Lost: true}.On("PUT", "/merge").Once())
	_, err := g.Merge(ctx, shop, number, p.Head, spec.MethodSquash)
	requireFailure(t, err, failures.APIError)
	merged := s.repo.Head("main")
	require.Empty(t, s.merge(g, number, p.Head, spec.MethodSquash), "it was merged, and is not merged again")
	require.Equal(t, merged, s.repo.Head("main"))
	require.Equal(t, merged, s.look(g, number).MergedAs)
}

func TestWhatAProtectedBranchRequires(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g, ctx := s.driver(), t.Context()
	number := open(s, g)
	head := s.repo.Head("work")
	s.repo.Protect(githubtest.Protection{Checks: []string{"test", "ci/build"}, Reviews: 1, UpToDate: true, Queue: true})
	require.Equal(t, []string{
		"A required review is missing.", "The required check test has not passed.", "The required check ci/build has not passed.",
	}, s.look(g, number).Blocked)
	require.Contains(t, s.merge(g, number, head, spec.MethodMerge), `Required status check "test" is expected`)

	s.repo.SetCheck(head, "test", "success", "")
	s.repo.SetStatus(head, "ci/build", "success", "")
	s.repo.Review(number, "ben", "MEMBER", "CHANGES_REQUESTED", "no")
	require.Equal(t, []string{"A reviewer requests changes."}, s.look(g, number).Blocked)
	s.repo.Review(number, "ben", "MEMBER", "APPROVED", "")
	s.commit("main", "other", "x")
	require.Equal(t, delivery.MergeBehind, s.look(g, number).Mergeable)
	s.repo.Protect(githubtest.Protection{Checks: []string{"test"}, Queue: true})
	require.Empty(t, s.look(g, number).Blocked)

	require.Contains(t, s.merge(g, number, s.repo.Head("main"), spec.MethodMerge), "Head oid did not match")
	s.Fail(githubtest.Fault{Lost: true}.On("POST", "/MaestroEnqueue").Once())
	_, err := g.Merge(ctx, shop, number, head, spec.MethodMerge)
	requireFailure(t, err, failures.APIError)
	for range 2 {
		require.Empty(t, s.merge(g, number, head, spec.MethodMerge))
	}
	require.True(t, s.look(g, number).Queued)
	s.repo.FinishQueue()
	p := s.look(g, number)
	require.False(t, p.Queued)
	require.Equal(t, session.PullMerged, p.State)
}

func TestSomebodyClosesIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g := s.driver()
	number := open(s, g)
	s.repo.Close(number, "ben")
	p := s.look(g, number)
	require.Equal(t, session.PullClosed, p.State)
	require.Equal(t, "ben", p.ClosedBy)
	require.NotEmpty(t, p.Head)
	s.repo.Reopen(number, "ben")
	s.repo.DeleteBranch("work")
	p = s.look(g, number)
	require.Equal(t, session.PullClosed, p.State)
	require.Empty(t, p.Head)
}

func key(t *testing.T) (*rsa.PrivateKey, []byte) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return k, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
}

func TestAnAppRenewsItsTokens(t *testing.T) {
	t.Parallel()
	k, text := key(t)
	app := &githubtest.App{ID: 7, Slug: "maestro-app", Key: &k.PublicKey, Installation: 70}
	s := newSite(t, githubtest.Options{App: app, Skew: 3 * time.Hour})
	o := s.options()
	o.Token, o.App = "", &codehost.GitHubApp{ID: 7, Key: text}
	g := s.driverOf(o)
	renewals := func() (n int) {
		for _, r := range s.Requests() {
			if strings.HasSuffix(r.Path, "/access_tokens") && r.Status == http.StatusCreated {
				n++
			}
		}
		return n
	}
	number := open(s, g)
	require.NoError(t, g.Comment(t.Context(), shop, number, "", "mine"))
	p := s.look(g, number)
	require.Equal(t, delivery.Person{Name: "maestro-app[bot]", Self: true}, p.Comments[0].By)
	first := s.remote(g)
	require.Equal(t, 1, renewals(), "although the clocks differ by three hours")

	s.Reinstall(71)
	p = s.look(g, number)
	require.Len(t, p.Comments, 1)
	require.NotEqual(t, first.Password, s.remote(g).Password)
	require.Equal(t, 2, renewals())

	app.Lifetime = 11 * time.Minute
	s.Reinstall(72)
	for range 3 {
		s.repository(g)
	}
	require.GreaterOrEqual(t, renewals(), 5, "a token is renewed before its last ten minutes")

	_, err := g.Remote(t.Context(), "acme/other")
	requireFailure(t, err, failures.Auth, "the app a token for acme/other", "not installed")
	o.App = &codehost.GitHubApp{ID: 8, Key: text}
	g = s.driverOf(o)
	_, err = g.Repository(t.Context(), shop)
	requireFailure(t, err, failures.Auth, "401")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]codehost.GitHubOptions{
		"not a URL":              {URL: "github", Token: "x"},
		"begin with https://":    {URL: "http://github.example.com", Token: "x"},
		"either a token or":      {},
		"not an RSA key as PEM":  {App: &codehost.GitHubApp{ID: 1, Key: []byte("x")}},
		"either a token or an a": {Token: "x", App: &codehost.GitHubApp{}},
	} {
		_, err := codehost.NewGitHub(o)
		require.ErrorContains(t, err, want)
	}
	g, err := codehost.NewGitHub(codehost.GitHubOptions{Token: "x", Clock: time.Now})
	require.NoError(t, err)
	remote, err := g.Remote(t.Context(), shop)
	require.NoError(t, err)
	require.Equal(t, "https://github.com/acme/shop.git", remote.URL)
	for _, name := range []string{"", "shop", "a/b/c", "../shop", "acme/..", "acme/shop?x=1", "-x/shop", "acme/shop#", "a\n/b"} {
		_, err := g.Remote(t.Context(), name)
		requireFailure(t, err, failures.InvalidRequest, "is no repository of GitHub; write it as OWNER/NAME")
	}
}

func TestErrorsOfGraphQL(t *testing.T) {
	t.Parallel()
	for kind, category := range map[string]failures.Category{
		`"type": "FORBIDDEN"`: failures.Auth, `"type": "RATE_LIMITED"`: failures.RateLimited, `"type": "NOT_FOUND"`: failures.InvalidRequest,
		`"type": "UNPROCESSABLE"`: failures.InvalidRequest, `"x": 1`: failures.APIError,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, githubtest.Options{})
			g := s.driver()
			with := work
			with.Draft = true
			number, err := g.Open(t.Context(), shop, with)
			require.NoError(t, err)
			s.Fail(githubtest.Fault{Status: 200, Body: `{"data": null, "errors": [{"message": "No.", ` + kind + `}]}`}.On("POST", "/MaestroReady").Once())
			err = g.Edit(t.Context(), shop, number, delivery.Edit{Ready: true})
			f := requireFailure(t, err, category, "change pull request 1 of acme/shop", "No.")
			require.Equal(t, category == failures.RateLimited, f.RetryAfter > 0)
		})
	}
}
