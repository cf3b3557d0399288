package codehost_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
)

func TestReviewsAndConversations(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g, ctx := s.driver(), t.Context()
	number := open(s, g)
	verdicts := func() (out []string) {
		for _, r := range s.look(g, number).Reviews {
			out = append(out, fmt.Sprintf("%s %s %s %v", r.By.Name, r.Verdict, r.Body, r.By.Trusted))
		}
		return out
	}
	s.repo.Review(number, "eve", "NONE", "CHANGES_REQUESTED", "I want")
	first := s.repo.Review(number, "ben", "MEMBER", "CHANGES_REQUESTED", "louder")
	s.repo.Review(number, "ben", "MEMBER", "COMMENTED", "and rename it")
	s.repo.Review(number, "ben", "MEMBER", "COMMENTED", "")
	s.repo.Review(number, "lint[bot]", "COLLABORATOR", "APPROVED", "")
	require.Equal(t, []string{
		"eve changes_requested I want false", "ben changes_requested louder true", "lint[bot] approved  false",
	}, verdicts(), "a comment does not end a verdict")
	p := s.look(g, number)
	require.Len(t, p.Comments, 1)
	require.Equal(t, "and rename it", p.Comments[0].Body, "and is not lost")
	s.repo.Dismiss(number, first)
	require.Contains(t, verdicts(), "ben dismissed louder true")
	s.repo.Review(number, "ben", "MEMBER", "APPROVED", "fine")
	require.Equal(t, "ben approved fine true", verdicts()[2])

	root := s.repo.LineComment(number, "ben", "OWNER", "shout.go", 3, "why?", 0)
	s.repo.LineComment(number, "eve", "NONE", "shout.go", 3, "yes, why?", root)
	other := s.repo.LineComment(number, "ben", "OWNER", "README", 0, "wrong", 0)
	s.repo.Comment(number, "ben", "OWNER", "@maestro go on")
	require.NoError(t, g.Comment(ctx, shop, number, fmt.Sprint(root), "because"))
	p = s.look(g, number)
	require.Len(t, p.Threads, 2)
	about := p.Threads[0]
	require.Len(t, about.Comments, 3)
	require.Equal(t, "why?", about.Comments[0].Body)
	require.Equal(t, "because", about.Comments[2].Body)
	require.Equal(t, "shout.go", about.Path)
	require.Equal(t, 3, about.Line)
	require.Contains(t, about.Hunk, "@@ -3,1 +3,1 @@")
	require.Equal(t, []bool{false, true}, []bool{about.Comments[1].By.Self, about.Comments[2].By.Self})
	require.Zero(t, p.Threads[1].Line)
	require.Equal(t, delivery.Person{Name: "ben", Trusted: true}, p.Comments[1].By)
	require.True(t, p.Comments[1].At.After(p.Comments[0].At))

	for range 2 {
		require.NoError(t, g.Resolve(ctx, shop, number, fmt.Sprint(other)))
	}
	p = s.look(g, number)
	require.Equal(t, []bool{false, true}, []bool{p.Threads[0].Resolved, p.Threads[1].Resolved})
	requireFailure(t, g.Comment(ctx, shop, number, "99", "x"), failures.InvalidRequest, "in_reply_to is invalid")
}

func TestChecks(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g, ctx := s.driver(), t.Context()
	number := open(s, g)
	head := s.repo.Head("work")
	s.repo.SetRun(githubtest.Run{
		SHA: head, Name: "test", Workflow: "CI", App: "github-actions", Conclusion: "failure",
		Log: "2026-03-02T09:00:00.1234567Z \x1b[31m--- FAIL: TestShout\x1b[0m\n2026-03-02T09:00:01.0000000Z ##[error]exit code 1\n" +
			"2026-03-02T09:00:02.0000000Z Post job cleanup.\n",
		Annotations: []string{"a.go:1:warning:unused", "shout.go:3:failure:not \x1b[2Jloud", ".github:1:failure:exit code 1"},
	})
	s.repo.SetRun(githubtest.Run{SHA: head, Name: "test", Workflow: "Nightly", App: "github-actions", Conclusion: "success"})
	s.repo.SetRun(githubtest.Run{SHA: head, Name: "scan", App: "scanner", Conclusion: "action_required"})
	s.repo.SetRun(githubtest.Run{SHA: head, Name: "cover", App: "coverage", Conclusion: "timed_out", Log: "fell to 3 %"})
	s.repo.SetCheck(head, "docs", "skipped", "")
	s.repo.SetCheck(head, "race", "", "")
	s.repo.SetStatus(head, "ci/build", "error", "no agent")
	s.repo.SetStatus(head, "ci/deploy", "pending", "")
	s.repo.SetCheck(s.repo.Head("main"), "test", "failure", "of another commit")
	checks := map[string]delivery.Check{}
	list := func() (out []string) {
		for _, c := range s.look(g, number).Checks {
			out = append(out, fmt.Sprint(c.Name, " ", c.State, " ", c.Runs, " ", c.Rerunnable))
			if c.State == delivery.CheckFailed {
				checks[c.Name] = c
			}
		}
		return out
	}
	require.Equal(t, []string{
		"ci/build failed 0 false", "ci/deploy pending 0 false", "cover failed 0 true", "docs passed 1 true", "race pending 1 false",
		"scan pending 0 true", "test failed 1 true", "test passed 1 true",
	}, list())

	log := s.log(g, checks["test"])
	require.Equal(t, delivery.CheckLog{
		Step: "Run test", Annotations: []string{"shout.go:3: not loud", "a.go:1: unused"},
		Tail: "--- FAIL: TestShout\n##[error]exit code 1",
	}, log)
	require.Equal(t, delivery.CheckLog{Tail: "cover\nfell to 3 %"}, s.log(g, checks["cover"]))
	require.Equal(t, "no agent\nhttps://ci.example.com/ci/build", s.log(g, checks["ci/build"]).Tail)

	s.Fail(githubtest.Fault{Lost: true}.On("POST", "/rerun").Once())
	requireFailure(t, g.Rerun(ctx, shop, checks["test"]), failures.APIError)
	require.NotContains(t, list(), "test failed 1 true")
	require.Contains(t, list(), "test pending 2 false")
	require.NoError(t, g.Rerun(ctx, shop, checks["cover"]))
	require.Contains(t, list(), "cover pending 0 false")
	s.repo.Deny("POST /check-suites/{id}/rerequest", "checks=write")
	requireFailure(t, g.Rerun(ctx, shop, checks["cover"]), failures.InvalidRequest, "checks=write")

	s.repo.Deny("GET /actions/runs", "actions=read")
	require.Len(t, s.look(g, number).Checks, 7, "without Actions the newest of two jobs with one name is taken")
}

// Fine-grained tokens may not read checks: jobs of Actions and statuses are read, and what GitHub says of all together.
func TestChecksThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g := s.driver()
	number := open(s, g)
	head := s.repo.Head("work")
	s.repo.Deny("GET /commits/{sha}/check-runs", "checks=read")
	s.repo.Deny("GET /check-runs/{id}/annotations", "checks=read")
	list := func() (out []string) {
		for _, c := range s.look(g, number).Checks {
			out = append(out, fmt.Sprint(c.Name, " ", c.State, " ", c.Runs, " ", c.Rerunnable))
		}
		return out
	}
	require.NoError(t, g.Edit(t.Context(), shop, number, delivery.Edit{Ready: true}))
	s.repo.SetCheck(head, "test", "failure", "want LOUD")
	s.repo.SetStatus(head, "ci/build", "success", "")
	require.Equal(t, []string{"ci/build passed 0 false", "test failed 1 true"}, list())
	require.Equal(t, delivery.CheckLog{Step: "Run test", Tail: "want LOUD"}, s.log(g, s.look(g, number).Checks[1]))
	s.repo.SetCheck(head, "test", "success", "")
	s.repo.SetRun(githubtest.Run{SHA: head, Name: "scan", App: "scanner", Conclusion: "failure"})
	require.Equal(t, []string{
		"ci/build passed 0 false", "one that the credentials may not read pending 0 false", "test passed 2 true",
	}, list())
	s.repo.SetRun(githubtest.Run{SHA: head, Name: "scan", App: "scanner", Conclusion: "success"})
	require.Equal(t, []string{"ci/build passed 0 false", "test passed 2 true"}, list())
}

func TestAWorkflowWithoutJobsIsPending(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g := s.driver()
	number := open(s, g)
	s.Fail(githubtest.Fault{Status: 200, Body: `{"workflow_runs": [{"id": 1, "check_suite_id": 2, "name": "CI", "status": "completed",
		"conclusion": "action_required"}, {"id": 3, "check_suite_id": 4, "name": "Old", "status": "completed", "conclusion": "success"}]}`}.
		On("GET", "/actions/runs"))
	require.Equal(t, []delivery.Check{{ID: "workflow-1", Name: "CI", State: delivery.CheckPending}}, s.look(g, number).Checks)
}

func TestLogsOfOtherPlaces(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was read") }))
	t.Cleanup(elsewhere.Close)
	s := newSite(t, githubtest.Options{})
	g := s.driver()
	number := open(s, g)
	s.repo.SetCheck(s.repo.Head("work"), "test", "failure", strings.Repeat("a line of the log ☃\n", 100_000)+"the end")
	check := s.look(g, number).Checks[0]
	log := s.log(g, check)
	require.LessOrEqual(t, len(log.Tail), delivery.MaxText)
	require.True(t, utf8.ValidString(log.Tail))
	require.True(t, strings.HasSuffix(log.Tail, "☃\nthe end"))

	s.Fail(githubtest.Fault{Status: 302, Header: map[string]string{"Location": elsewhere.URL + "/x?sig=secret"}}.
		On("GET", "/logs").Once())
	log = s.log(g, check)
	require.Equal(t, "[The log is at "+strings.TrimPrefix(elsewhere.URL, "http://")+", which Maestro does not read.]", log.Tail)
	s.Fail(githubtest.Fault{Status: 410}.On("GET", "/logs").Once())
	require.Equal(t, delivery.CheckLog{Step: "Run test"}, s.log(g, check))
}

func TestManyCommentsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g := s.driver()
	number := open(s, g)
	for range 120 {
		s.repo.LineComment(number, "ben", "OWNER", "shout.go", 3, "why?", 0)
	}
	s.repo.CommentMany(number, 10_000, "eve", "NONE")
	last := s.repo.LineComment(number, "ben", "OWNER", "shout.go", 3, "why?", 0)
	before := len(s.Requests())
	p := s.look(g, number)
	require.Less(t, len(s.Requests())-before, 25)
	require.Len(t, p.Comments, delivery.MaxComments-1)
	require.Equal(t, "No. 9999", p.Comments[len(p.Comments)-1].Body)
	require.Len(t, p.Threads, 1)
	require.NoError(t, g.Resolve(t.Context(), shop, number, fmt.Sprint(last)))
	require.True(t, s.look(g, number).Threads[0].Resolved)

	s.repo.CommentMany(number, 1, "ben", "OWNER")
	p = s.look(g, number)
	require.Equal(t, "ben", p.Comments[len(p.Comments)-1].By.Name, "also if the page before the last was full")
}

func TestTextsOfOthersAreData(t *testing.T) {
	t.Parallel()
	s := newSite(t, githubtest.Options{})
	g := s.driver()
	hostile := "\x1b]0;x\x07 $(reboot) `id` ]]> </script>\x00 --upload-pack=x \u202e" + strings.Repeat("☃", 1<<16)
	number := s.repo.Open("eve", "work", "main", hostile)
	s.repo.Comment(number, "eve", "NONE", hostile)
	s.repo.LineComment(number, "eve", "NONE", hostile, 1, hostile, 0)
	s.repo.Review(number, "eve", "NONE", "APPROVED", hostile)
	s.repo.SetRun(githubtest.Run{SHA: s.repo.Head("work"), Name: hostile, App: "x", Conclusion: "failure", Log: hostile})
	require.NoError(t, g.Edit(t.Context(), shop, number, delivery.Edit{Body: hostile}))
	p := s.look(g, number)
	require.Equal(t, hostile, p.Body, "it is whole, because it is written back")
	for _, text := range []string{
		p.Comments[0].Body, p.Threads[0].Path, p.Threads[0].Comments[0].Body, p.Reviews[0].Body, p.Checks[0].Name,
	} {
		require.LessOrEqual(t, len(text), delivery.MaxText)
		require.True(t, utf8.ValidString(text))
		require.True(t, strings.HasSuffix(text, "☃…\n[The text has 192.1 KiB. The rest is left out.]"), text[len(text)-80:])
		require.True(t, strings.HasPrefix(text, "\x1b]0;x"), "whoever shows it makes it safe")
	}
	log := s.log(g, p.Checks[0])
	require.LessOrEqual(t, len(log.Tail), delivery.MaxText)
	require.NotContains(t, log.Tail, "\x1b")
	require.False(t, p.Comments[0].By.Trusted || p.Reviews[0].By.Trusted)
}
