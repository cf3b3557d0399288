package codehost_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/outside/codehost"
	"github.com/maestro-hive/maestro/internal/testkit/gitlabtest"
)

const (
	labProject = "acme/web/shop"
	branch     = "maestro/s-1"
)

// lab is a GitLab with one project, and the driver for it.
type lab struct {
	*gitlabtest.Server
	host *codehost.GitLab
}

func driver(t *testing.T, url string, timeout time.Duration) *codehost.GitLab {
	t.Helper()
	host, err := codehost.NewGitLab(codehost.GitLabOptions{
		URL: url, Token: gitlabtest.Token, Version: "1.2", Timeout: timeout,
		Clock: func() time.Time { return time.Date(2026, time.January, 5, 12, 0, 0, 0, time.UTC) },
	})
	require.NoError(t, err)
	return host
}

// newLab makes a project with people: rita may write, gil may not.
func newLab(t *testing.T, p gitlabtest.Project) *lab {
	t.Helper()
	s := gitlabtest.New(t, gitlabtest.Options{})
	p.Name = labProject
	s.AddProject(p)
	s.AddMember(labProject, "rita", gitlabtest.Maintainer)
	s.AddMember(labProject, "gil", gitlabtest.Reporter)
	return &lab{Server: s, host: driver(t, s.URL(), time.Minute)}
}

// opened is a lab with an open merge request that changes b.txt.
func opened(t *testing.T, p gitlabtest.Project) (l *lab, number int) {
	t.Helper()
	l = newLab(t, p)
	l.Push(labProject, branch, map[string]string{"b.txt": "one\n"})
	number = l.open(t, delivery.New{Branch: branch, Base: "main", Title: "Add b", Body: "Text."})
	return l, number
}

func (l *lab) open(t *testing.T, n delivery.New) int {
	t.Helper()
	number, err := l.host.Open(t.Context(), labProject, n)
	require.NoError(t, err)
	return number
}

func (l *lab) find(t *testing.T) int {
	t.Helper()
	number, err := l.host.Find(t.Context(), labProject, branch, "main")
	require.NoError(t, err)
	return number
}

func (l *lab) look(t *testing.T, number int) delivery.PullRequest {
	t.Helper()
	p, err := l.host.Look(t.Context(), labProject, number)
	require.NoError(t, err)
	return p
}

func (l *lab) only(t *testing.T) gitlabtest.MergeRequest {
	t.Helper()
	all := l.MergeRequests(labProject)
	require.Len(t, all, 1)
	return all[0]
}

func failure(t *testing.T, err error) *failures.Failure {
	t.Helper()
	var f *failures.Failure
	require.ErrorAs(t, err, &f)
	require.NotContains(t, f.Message, gitlabtest.Token)
	return f
}

func TestGitLabOpensAMergeRequestOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, gitlabtest.Project{})
	l.Push(labProject, branch, map[string]string{"b.txt": "one\n"})
	l.Block("old")
	l.Open(labProject, branch, "From a fork", true)

	require.Zero(t, l.find(t), "that of a fork is another one")

	order := delivery.New{
		Branch: branch, Base: "main", Title: "Draft: Add b", Body: "Text.", Draft: true,
		Labels: []string{"bot", "small"},
	}
	number := l.open(t, order)
	again := l.open(t, order)
	require.Equal(t, number, again)
	require.Equal(t, number, l.find(t))

	require.Len(t, l.MergeRequests(labProject), 2)
	mr := l.MergeRequests(labProject)[number-1]
	require.Equal(t, "Draft: Add b", mr.Title)
	require.Equal(t, "Text.", mr.Description)
	require.Equal(t, []string{"bot", "small"}, mr.Labels)

	// The newest one counts, and a closed one is not opened again.
	l.CloseMergeRequest(labProject, number, "rita")
	newer := l.open(t, order)
	require.NotEqual(t, number, newer)
	require.Equal(t, newer, l.find(t))

	order.Branch = "gone"
	_, err := l.host.Open(t.Context(), labProject, order)
	f := failure(t, err)
	require.Equal(t, failures.InvalidRequest, f.Category)
	require.Contains(t, f.Message, `Branch "gone" does not exist`)
}

func TestGitLabEditsAMergeRequest(t *testing.T) {
	t.Parallel()
	l := newLab(t, gitlabtest.Project{})
	l.Push(labProject, branch, map[string]string{"b.txt": "one\n"})
	order := delivery.New{Branch: branch, Base: "main", Title: "Add b", Body: "Text.", Draft: true}
	number := l.open(t, order)

	require.NoError(t, l.host.Edit(t.Context(), labProject, number, delivery.Edit{Body: "New."}))
	require.Equal(t, "New.", l.only(t).Description)
	require.True(t, l.look(t, number).Draft)

	l.SetTitle(labProject, number, "[Draft] draft: A person's title")
	l.Block("old")
	l.RequestChanges(labProject, number, "dora") // a reviewer whom a person has asked
	reviewers := []string{"rita", "@gil", "nobody", "old", "acme/team", "DORA"}
	require.NoError(t, l.host.Edit(t.Context(), labProject, number, delivery.Edit{Ready: true, Reviewers: reviewers}))
	require.Equal(t, []string{"dora", "gil", "rita"}, l.only(t).Reviewers)
	require.Equal(t, delivery.ChangesRequested, l.look(t, number).Reviews[0].Verdict)
	require.Equal(t, "A person's title", l.only(t).Title)
	require.False(t, l.look(t, number).Draft)
}

// What agents and logs say must not be executed with the account's rights.
func TestGitLabExecutesNothingThatATextSays(t *testing.T) {
	t.Parallel()
	evil := "Log:\n/close\n  /merge now\r\n\r/approve\r\n/\rtitle x\n/CLOSE\t\n/usr/bin/x failed\nand/or /close"
	l := newLab(t, gitlabtest.Project{})
	l.Push(labProject, branch, map[string]string{"b.txt": "one\n"})
	ctx := t.Context()
	number := l.open(t, delivery.New{Branch: branch, Base: "main", Title: "Add b", Body: evil})
	thread := l.Thread(labProject, number, "rita", "Why?", gitlabtest.Place{})
	require.NoError(t, l.host.Edit(ctx, labProject, number, delivery.Edit{Body: evil + "!"}))
	require.NoError(t, l.host.Comment(ctx, labProject, number, "", evil))
	require.NoError(t, l.host.Comment(ctx, labProject, number, thread, evil))

	p := l.look(t, number)
	require.Equal(t, session.PullOpen, p.State)
	require.Equal(t, "Add b", l.only(t).Title)
	require.Empty(t, p.Reviews)
	require.Contains(t, p.Comments[0].Body, `\/close`)
	require.Contains(t, p.Body, "Log:\n\\/close\n  \\/merge now\r\n\r\\/approve\r\n")
	require.Contains(t, p.Body, "\n/usr/bin/x failed\nand/or /close!", "no more than necessary is changed")
}

func TestGitLabTalks(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	ctx := t.Context()
	thread := l.Thread(labProject, number, "rita", "Why one?", gitlabtest.Place{Path: "b.txt", Line: 1})
	general := l.Thread(labProject, number, "rita", "And the docs?", gitlabtest.Place{})
	require.NoError(t, l.host.Comment(ctx, labProject, number, thread, "Because."))
	require.NoError(t, l.host.Comment(ctx, labProject, number, "", "Progress: 1"))
	require.NoError(t, l.host.Resolve(ctx, labProject, number, thread))

	p := l.look(t, number)
	require.Len(t, p.Threads, 2)
	require.Equal(t, thread, p.Threads[0].ID)
	require.Equal(t, "b.txt", p.Threads[0].Path)
	require.Equal(t, 1, p.Threads[0].Line)
	require.True(t, p.Threads[0].Resolved)
	require.Len(t, p.Threads[0].Comments, 2)
	require.Equal(t, "Because.", p.Threads[0].Comments[1].Body)
	require.Equal(t, delivery.Person{Name: gitlabtest.Self, Trusted: true, Self: true}, p.Threads[0].Comments[1].By)
	require.Equal(t, delivery.Person{Name: "rita", Trusted: true}, p.Threads[0].Comments[0].By)
	require.Equal(t, general, p.Threads[1].ID)
	require.Empty(t, p.Threads[1].Path)
	require.False(t, p.Threads[1].Resolved)
	require.Len(t, p.Comments, 1)
	require.Equal(t, "Progress: 1", p.Comments[0].Body)
	require.Equal(t, p.URL+"#note_"+p.Comments[0].ID, p.Comments[0].URL)
	require.False(t, p.Comments[0].At.IsZero())

	for _, err := range []error{
		l.host.Comment(ctx, labProject, number, "00", "y"), l.host.Resolve(ctx, labProject, number, "../../../merge"),
	} {
		require.Equal(t, failures.InvalidRequest, failure(t, err).Category)
	}
}

func TestGitLabMerges(t *testing.T) {
	t.Parallel()
	merge := func(t *testing.T, l *lab, number int, head string, method spec.MergeMethod) string {
		t.Helper()
		why, err := l.host.Merge(t.Context(), labProject, number, head, method)
		require.NoError(t, err)
		return why
	}
	t.Run("a commit", func(t *testing.T) {
		t.Parallel()
		l, number := opened(t, gitlabtest.Project{})
		head := l.Head(labProject, branch)
		require.Empty(t, merge(t, l, number, head, spec.MethodMerge))
		p := l.look(t, number)
		require.Equal(t, session.PullMerged, p.State)
		require.Equal(t, l.Head(labProject, "main"), p.MergedAs)
		require.Empty(t, p.Blocked)
		require.Contains(t, merge(t, l, number, head, spec.MethodMerge), "405", "it is merged already, as the next look tells")
	})
	t.Run("squashed", func(t *testing.T) {
		t.Parallel()
		l, number := opened(t, gitlabtest.Project{})
		l.Push(labProject, branch, map[string]string{"c.txt": "two\n"})
		before := l.Head(labProject, "main")
		require.Empty(t, merge(t, l, number, l.Head(labProject, branch), spec.MethodSquash))
		out, err := exec.CommandContext(t.Context(), "git", "-C", l.Dir(labProject), "rev-list", before+"..main").Output()
		require.NoError(t, err)
		require.Len(t, strings.Fields(string(out)), 1)
	})
	t.Run("a fast-forward", func(t *testing.T) {
		t.Parallel()
		l, number := opened(t, gitlabtest.Project{FastForward: true})
		head := l.Head(labProject, branch)
		require.Empty(t, merge(t, l, number, head, spec.MethodRebase))
		require.Equal(t, head, l.look(t, number).MergedAs)
	})
	t.Run("not another head", func(t *testing.T) {
		t.Parallel()
		l, number := opened(t, gitlabtest.Project{})
		head := l.Head(labProject, branch)
		l.Push(labProject, branch, map[string]string{"c.txt": "two\n"})
		require.Contains(t, merge(t, l, number, head, spec.MethodMerge), "SHA does not match HEAD")
		require.Equal(t, session.PullOpen, l.look(t, number).State)
	})
	t.Run("not before it may", func(t *testing.T) {
		t.Parallel()
		l, number := opened(t, gitlabtest.Project{ThreadsMustBeResolved: true})
		l.Thread(labProject, number, "rita", "Why?", gitlabtest.Place{})
		require.Contains(t, merge(t, l, number, l.Head(labProject, branch), spec.MethodMerge), "discussions not resolved")
	})
	t.Run("not with conflicts", func(t *testing.T) {
		t.Parallel()
		l, number := opened(t, gitlabtest.Project{})
		l.Push(labProject, "main", map[string]string{"b.txt": "other\n"})
		require.Equal(t, delivery.MergeConflicts, l.look(t, number).Mergeable)
		require.Contains(t, merge(t, l, number, l.Head(labProject, branch), spec.MethodMerge), "Branch cannot be merged")
	})
	t.Run("not without the right", func(t *testing.T) {
		t.Parallel()
		l, number := opened(t, gitlabtest.Project{NoMerge: true})
		_, err := l.host.Merge(t.Context(), labProject, number, l.Head(labProject, branch), spec.MethodMerge)
		f := failure(t, err)
		require.Equal(t, failures.Auth, f.Category)
		require.Contains(t, f.Message, "its account may not do this")
	})
	t.Run("by a train", func(t *testing.T) {
		t.Parallel()
		l, number := opened(t, gitlabtest.Project{Trains: true})
		head := l.Head(labProject, branch)
		require.Empty(t, merge(t, l, number, head, spec.MethodMerge))
		p := l.look(t, number)
		require.Equal(t, session.PullOpen, p.State)
		require.True(t, p.Queued)
		require.NotEmpty(t, merge(t, l, number, head, spec.MethodMerge))
		l.RunTrain(labProject)
		p = l.look(t, number)
		require.Equal(t, session.PullMerged, p.State)
		require.False(t, p.Queued)
	})
}

func TestGitLabFollowsARenamedProject(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	l.Rename(labProject, "acme/store")
	ctx := t.Context()
	r, err := l.host.Repository(ctx, labProject)
	require.NoError(t, err)
	require.Equal(t, delivery.Repository{Name: "acme/store", DefaultBranch: "main"}, r)
	require.Equal(t, number, l.look(t, number).Number)
	// GitLab changes nothing by the earlier name. The next attempt has the new one.
	f := failure(t, l.host.Comment(ctx, labProject, number, "", "Still there?"))
	require.Equal(t, failures.APIError, f.Category)
	require.Contains(t, f.Message, "Non GET methods are not allowed for moved projects")
	require.NoError(t, l.host.Comment(ctx, r.Name, number, "", "Still there."))
	why, err := l.host.Merge(ctx, labProject, number, l.Head("acme/store", branch), spec.MethodMerge)
	require.NoError(t, err)
	require.Empty(t, why)
}

func TestGitLabSaysThatAProjectIsArchivedOrGone(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	l.Archive(labProject)
	r, err := l.host.Repository(t.Context(), labProject)
	require.NoError(t, err)
	require.True(t, r.Archived)
	f := failure(t, l.host.Comment(t.Context(), labProject, number, "", "Hello"))
	require.Equal(t, failures.Auth, f.Category)
	require.Contains(t, f.Message, "which may not be archived", "GitLab does not say why it refuses")

	l.Delete(labProject)
	for _, name := range []string{labProject, "no/such", "../../../user", "acme/web%2Fshop"} {
		_, err = l.host.Repository(t.Context(), name)
		f = failure(t, err)
		require.Equal(t, failures.InvalidRequest, f.Category)
		require.Contains(t, f.Message, "it does not exist, or the token may not see it (404)", name)
	}
}

func TestGitLabRefusesWrongOptions(t *testing.T) {
	t.Parallel()
	for text, o := range map[string]codehost.GitLabOptions{
		"is not a URL":                  {URL: "gitlab.example.com", Token: "x"},
		"is not a URL: write it":        {URL: "https://user:secret@gitlab.example.com", Token: "x"},
		"has to begin with https://":    {URL: "http://gitlab.example.com", Token: "x"},
		"GitLab needs an access token":  {},
		"has to begin with https://, b": {URL: "ftp://gitlab.example.com", Token: "x"},
	} {
		_, err := codehost.NewGitLab(o)
		require.ErrorContains(t, err, text)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := codehost.NewGitLab(codehost.GitLabOptions{Token: "x"})
	require.NoError(t, err)
}

// A caller repeats what it got no answer to. The result is the same as with one request.
func TestGitLabLosesAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t, gitlabtest.Project{})
	ctx := t.Context()
	l.Push(labProject, branch, map[string]string{"b.txt": "one\n"})
	order := delivery.New{Branch: branch, Base: "main", Title: "Add b", Body: "Text."}
	l.Fail(gitlabtest.Fault{Lost: true}.On("POST", "/merge_requests").Once())
	_, err := l.host.Open(ctx, labProject, order)
	require.Equal(t, failures.APIError, failure(t, err).Category)
	number := l.open(t, order)
	require.Len(t, l.MergeRequests(labProject), 1)

	l.Fail(gitlabtest.Fault{Lost: true}.On("POST", "/notes").Once())
	require.Equal(t, failures.APIError, failure(t, l.host.Comment(ctx, labProject, number, "", "<!-- marker -->")).Category)
	require.Equal(t, "<!-- marker -->", l.look(t, number).Comments[0].Body, "the caller finds its marker")

	l.SetJob(labProject, branch, gitlabtest.Job{Name: "unit", Status: "failed"})
	failed := l.look(t, number).Checks[0]
	l.Fail(gitlabtest.Fault{Lost: true}.On("POST", "/retry").Once())
	require.Equal(t, failures.APIError, failure(t, l.host.Rerun(ctx, labProject, failed)).Category)
	require.NoError(t, l.host.Rerun(ctx, labProject, failed))
	check := l.look(t, number).Checks[0]
	require.Equal(t, delivery.CheckPending, check.State)
	require.Equal(t, 2, check.Runs)

	l.Fail(gitlabtest.Fault{Lost: true}.On("PUT", "/merge").Once())
	_, err = l.host.Merge(ctx, labProject, number, l.Head(labProject, branch), spec.MethodMerge)
	require.Equal(t, failures.APIError, failure(t, err).Category)
	require.Equal(t, session.PullMerged, l.look(t, number).State)
}
