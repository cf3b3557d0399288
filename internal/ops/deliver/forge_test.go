package deliver_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/outside/codehost"
	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
	"github.com/maestro-hive/maestro/internal/testkit/gitlabtest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
)

type githubForge struct {
	b    *bench
	s    *githubtest.Server
	repo *githubtest.Repository
}

func newGitHubForge(b *bench) forge {
	f := &githubForge{b: b}
	f.s = githubtest.New(b.t, githubtest.Options{
		Git: b.git, GitUser: gittest.User, GitPassword: gittest.Password, Dir: b.git.Dir, MergeableLate: true,
	})
	f.repo = f.s.Create(shop)
	return f
}

func (f *githubForge) newHost() delivery.Host {
	host, err := codehost.NewGitHub(codehost.GitHubOptions{URL: f.s.URL, Token: githubtest.Token, Clock: f.b.now, Version: "test"})
	require.NoError(f.b.t, err)
	return host
}

func (f *githubForge) comment(by, text string) { f.repo.Comment(1, by, f.is(by), text) }
func (f *githubForge) line(by, text string) {
	f.repo.LineComment(1, by, f.is(by), "shout.go", 1, text, 0)
}
func (f *githubForge) rename(to string) { f.repo.Rename(to) }

func (*githubForge) is(by string) string {
	if by == "eve" {
		return "NONE"
	}
	return "MEMBER"
}

func (f *githubForge) review(by string, approves bool, text string) {
	f.repo.Review(1, by, f.is(by), map[bool]string{true: "APPROVED", false: "CHANGES_REQUESTED"}[approves], text)
}

func (f *githubForge) check(state string) {
	f.repo.SetCheck(f.b.head(), "test", strings.TrimSuffix(state, "running"), "it is "+state)
}

func (f *githubForge) end(how string) {
	switch how {
	case "close":
		f.repo.Close(1, "ben")
	case "reopen":
		f.repo.Reopen(1, "ben")
	case "merge":
		f.repo.Merge(1, "ben", "merge")
	}
}

func (f *githubForge) fail(wrong func(bool) trouble) {
	failBy(f.s, map[trouble]faulttest.Fault{
		killBefore: {Cut: true}, killAfter: {Lost: true}, lost: {Lost: true}, bad: githubtest.BadGateway(),
		limited:   githubtest.SecondaryLimit(90 * time.Second),
		forbidden: {Status: http.StatusForbidden, Body: `{"message": "Resource not accessible by integration"}`},
	}, func(r faulttest.Request) trouble {
		query := strings.HasPrefix(r.Path, githubtest.GraphQL+"MaestroLook") || r.Path == githubtest.GraphQL+"MaestroQueue"
		return wrong(r.Method != http.MethodGet && !query)
	})
}

// failBy makes answers go wrong as a function says of each request.
func failBy(s interface{ Fail(f faulttest.Fault) }, faults map[trouble]faulttest.Fault, wrong func(faulttest.Request) trouble) {
	var now trouble
	for kind, fault := range faults {
		fault.If = func(faulttest.Request) bool { return now == kind }
		s.Fail(fault)
	}
	s.Fail(faulttest.Fault{If: func(r faulttest.Request) bool { // it is asked first
		now = wrong(r)
		return false
	}})
}

func (f *githubForge) seen() (count int, open, merged bool, texts []string) {
	for _, p := range f.repo.Pulls() {
		count, open, merged = count+1, p.State == "open", p.Merged
		texts = append(append(texts, p.Comments...), p.LineComments...)
	}
	return count, open, merged, texts
}

type gitlabForge struct {
	b    *bench
	s    *gitlabtest.Server
	name string
}

func newGitLabForge(b *bench) forge {
	f := &gitlabForge{b: b, name: shop}
	b.git.Accept("oauth2", gitlabtest.Token)
	f.s = gitlabtest.New(b.t, gitlabtest.Options{Git: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, rest, _ := strings.Cut(r.URL.Path, ".git/") // whatever it is called now
		r.URL.Path = "/" + shop + ".git/" + rest
		b.git.ServeHTTP(w, r)
	})})
	f.s.AddProject(gitlabtest.Project{Name: shop, Dir: b.git.Dir(shop)})
	for _, name := range []string{"ben", "ann"} {
		f.s.AddUser(name, false)
		f.s.AddMember(shop, name, gitlabtest.Developer)
	}
	return f
}

func (f *gitlabForge) newHost() delivery.Host {
	host, err := codehost.NewGitLab(codehost.GitLabOptions{URL: f.s.URL(), Token: gitlabtest.Token, Clock: f.b.now, Version: "test"})
	require.NoError(f.b.t, err)
	return host
}

func (f *gitlabForge) comment(by, text string) { f.s.Comment(f.name, 1, by, text) }

func (f *gitlabForge) line(by, text string) {
	f.s.Thread(f.name, 1, by, text, gitlabtest.Place{Path: "shout.go", Line: 1})
}

func (f *gitlabForge) rename(to string) {
	f.s.Rename(f.name, to)
	f.name = to
}

func (f *gitlabForge) review(by string, approves bool, text string) {
	if approves {
		f.s.Approve(f.name, 1, by)
		return
	}
	f.s.RequestChanges(f.name, 1, by)
}

func (f *gitlabForge) check(state string) {
	state = map[string]string{"failure": "failed"}[state] + strings.TrimSuffix(state, "failure")
	f.s.SetJob(f.name, shoutBranch, gitlabtest.Job{Name: "test", Stage: "test", Status: state, Log: "it is " + state})
}

func (f *gitlabForge) end(how string) {
	switch how {
	case "close":
		f.s.CloseMergeRequest(f.name, 1, "ben")
	case "reopen":
		f.s.Reopen(f.name, 1, "ben")
	case "merge":
		f.s.MergeMergeRequest(f.name, 1, "ben")
	}
}

func (f *gitlabForge) fail(wrong func(bool) trouble) {
	failBy(f.s, map[trouble]faulttest.Fault{
		killBefore: {Cut: true}, killAfter: {Lost: true}, lost: {Lost: true}, bad: gitlabtest.BadGateway(),
		limited: gitlabtest.RateLimited(90 * time.Second), forbidden: gitlabtest.Refusal(http.StatusForbidden, "403 Forbidden"),
	}, func(r faulttest.Request) trouble { return wrong(r.Method != http.MethodGet) })
}

func (f *gitlabForge) seen() (count int, open, merged bool, texts []string) {
	for _, m := range f.s.MergeRequests(f.name) {
		count, open, merged = count+1, m.State == "opened", m.State == "merged"
		for _, n := range m.Notes {
			texts = append(texts, n.Body)
		}
	}
	return count, open, merged, texts
}

func (f *githubForge) texts() (title, body string) {
	p := f.repo.Pulls()[0]
	return p.Title, p.Body
}

func (f *gitlabForge) texts() (title, body string) {
	m := f.s.MergeRequests(f.name)[0]
	return m.Title, m.Description
}
