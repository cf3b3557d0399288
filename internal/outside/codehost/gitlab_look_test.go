package codehost_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/gitlabtest"
)

func TestGitLabLooksAtAMergeRequest(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	require.Equal(t, delivery.PullRequest{
		Number: number, URL: fmt.Sprintf("%s/%s/-/merge_requests/%d", l.URL(), labProject, number), Branch: branch, Base: "main",
		Head: l.Head(labProject, branch), State: session.PullOpen, Body: "Text.", Mergeable: delivery.MergeClean,
	}, l.look(t, number))

	l.CloseMergeRequest(labProject, number, "gil")
	p := l.look(t, number)
	require.Equal(t, session.PullClosed, p.State)
	require.Equal(t, "gil", p.ClosedBy)
	l.Reopen(labProject, number, "gil")

	l.DeleteBranch(labProject, branch)
	p = l.look(t, number)
	require.Equal(t, session.PullOpen, p.State)
	require.Empty(t, p.Head)
	require.Equal(t, delivery.MergeUnknown, p.Mergeable)
	require.Equal(t, []string{"GitLab says commits status"}, p.Blocked)

	_, err := l.host.Look(t.Context(), labProject, 99)
	require.Equal(t, failures.InvalidRequest, failure(t, err).Category)
}

func TestGitLabSaysWhatBlocksAMerge(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{Approvals: 2, PipelinesMustSucceed: true, ThreadsMustBeResolved: true})
	says := func(mergeable delivery.Mergeable, blocked ...string) {
		t.Helper()
		p := l.look(t, number)
		require.Equal(t, mergeable, p.Mergeable)
		require.Equal(t, blocked, p.Blocked)
	}
	says(delivery.MergeClean, "2 more approvals required", "GitLab says ci must pass")
	l.SetJob(labProject, branch, gitlabtest.Job{Name: "unit", Status: "running"})
	says(delivery.MergeClean, "2 more approvals required", "GitLab says ci still running")
	l.SetJob(labProject, branch, gitlabtest.Job{Name: "unit", Status: "success"})
	says(delivery.MergeClean, "2 more approvals required")
	l.Approve(labProject, number, "rita")
	says(delivery.MergeClean, "1 more approval required")
	l.Approve(labProject, number, "gil")
	says(delivery.MergeClean)
	l.SetMergeStatus(labProject, number, "checking")
	says(delivery.MergeUnknown)
	l.SetMergeStatus(labProject, number, "a_new\x1b[2J_rule")
	says(delivery.MergeClean, "GitLab says a new rule")
	l.SetMergeStatus(labProject, number, "")

	l.Configure(labProject, func(p *gitlabtest.Project) { p.FastForward = true })
	l.Push(labProject, "main", map[string]string{"other.txt": "x\n"})
	says(delivery.MergeConflicts, "GitLab says need rebase")
	l.Configure(labProject, func(p *gitlabtest.Project) { p.FastForward = false })
	says(delivery.MergeClean)
	l.Push(labProject, "main", map[string]string{"b.txt": "x\n"})
	says(delivery.MergeConflicts, "GitLab says conflict")
	l.SetTitle(labProject, number, "Draft: x")
	says(delivery.MergeClean, "GitLab says draft status")
}

func states(checks []delivery.Check) map[string]delivery.CheckState {
	all := map[string]delivery.CheckState{}
	for _, c := range checks {
		all[c.Name] = c.State
	}
	return all
}

func TestGitLabListsChecks(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	require.Empty(t, l.look(t, number).Checks)
	want := map[string]delivery.CheckState{}
	for status, state := range map[string]delivery.CheckState{
		"success": delivery.CheckPassed, "skipped": delivery.CheckPassed, "manual": delivery.CheckPassed,
		"failed": delivery.CheckFailed, "canceled": delivery.CheckFailed, "running": delivery.CheckPending,
		"pending": delivery.CheckPending, "created": delivery.CheckPending, "waiting_for_resource": delivery.CheckPending,
		"scheduled": delivery.CheckPending, "a new one": delivery.CheckPending,
	} {
		l.SetJob(labProject, branch, gitlabtest.Job{Name: "is " + status, Status: status})
		want["is "+status] = state
	}
	l.SetJob(labProject, branch, gitlabtest.Job{Name: "may fail", Status: "failed", AllowFailure: true})
	l.SetStatus(labProject, branch, "external", "failed", "https://ci.example.com/1")
	want["may fail"], want["external"] = delivery.CheckPassed, delivery.CheckFailed
	p := l.look(t, number)
	require.Equal(t, want, states(p.Checks))
	for _, c := range p.Checks {
		ended := []string{"is success", "is failed", "is canceled", "may fail"}
		require.Equal(t, slices.Contains(ended, c.Name), c.Rerunnable, c.Name)
		require.Equal(t, 1, c.Runs)
		require.NotEmpty(t, c.URL)
	}

	// A job that comes after one that a person has to start is not waited for.
	l.Push(labProject, branch, map[string]string{"c.txt": "c\n"})
	l.SetJob(labProject, branch, gitlabtest.Job{Name: "deploy?", Status: "manual"})
	l.SetJob(labProject, branch, gitlabtest.Job{Name: "after", Status: "created"})
	want = map[string]delivery.CheckState{"deploy?": delivery.CheckPassed, "after": delivery.CheckPassed}
	require.Equal(t, want, states(l.look(t, number).Checks))
}

func TestGitLabCountsTheRunsOfAJob(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	l.SetJob(labProject, branch, gitlabtest.Job{Name: "unit", Status: "failed"})
	l.SetStatus(labProject, branch, "external", "failed", "https://ci.example.com/1")
	l.SetStatus(labProject, branch, "external", "success", "https://ci.example.com/2")
	checks := l.look(t, number).Checks
	require.Len(t, checks, 2)
	require.NoError(t, l.host.Rerun(t.Context(), labProject, checks[0]))
	checks = l.look(t, number).Checks
	require.Equal(t, 2, checks[0].Runs)
	require.Equal(t, delivery.CheckPending, checks[0].State)
	require.Equal(t, delivery.CheckPassed, checks[1].State)
	require.Equal(t, "https://ci.example.com/2", checks[1].URL)
	for _, c := range []delivery.Check{checks[1], {ID: "job/x"}, {ID: "pipeline/1"}, {}} {
		require.Equal(t, failures.InvalidRequest, failure(t, l.host.Rerun(t.Context(), labProject, c)).Category)
	}
}

func TestGitLabKnowsWhichPipelineCounts(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	l.SetJob(labProject, branch, gitlabtest.Job{Name: "of the branch", Status: "failed"})
	mergeRef := fmt.Sprintf("refs/merge-requests/%d/", number)

	// The pipeline of the merge request replaces that of the branch.
	l.AddPipeline(labProject, gitlabtest.Pipeline{SHA: l.Head(labProject, branch), Ref: mergeRef + "head"})
	l.SetJob(labProject, branch, gitlabtest.Job{Name: "of the request", Status: "success"})
	require.Equal(t, map[string]delivery.CheckState{"of the request": delivery.CheckPassed}, states(l.look(t, number).Checks))

	// A pipeline can test the merge with the base.
	l.Push(labProject, "merged", nil)
	other, otherNumber := opened(t, gitlabtest.Project{})
	other.MergeMergeRequest(labProject, otherNumber, "rita") // makes a merge commit with the head as a parent
	head := other.Head(labProject, branch)
	other.Reopen(labProject, otherNumber, "rita")
	other.AddPipeline(labProject, gitlabtest.Pipeline{SHA: other.Head(labProject, "main"), Ref: mergeRef + "merge"})
	other.SetJob(labProject, "main", gitlabtest.Job{Name: "merged", Status: "failed"})
	p := other.look(t, otherNumber)
	require.Equal(t, head, p.Head)
	require.Equal(t, map[string]delivery.CheckState{"merged": delivery.CheckFailed}, states(p.Checks))

	// GitLab learns of a push later. The checks of the earlier commit say nothing of it.
	l.Freeze(labProject, number, true)
	l.Push(labProject, branch, map[string]string{"c.txt": "c\n"})
	p = l.look(t, number)
	require.Equal(t, l.Head(labProject, branch), p.Head)
	require.Equal(t, map[string]delivery.CheckState{"pipeline": delivery.CheckPending}, states(p.Checks))
	require.Equal(t, delivery.MergeUnknown, p.Mergeable)
	l.Freeze(labProject, number, false)
	require.Empty(t, l.look(t, number).Checks, "whether a pipeline follows is not known")
}

// A merge request whose checks cannot be read has not passed them.
func TestGitLabNeedsTheChecks(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	l.Comment(labProject, number, "rita", "Hello")
	for path, status := range map[string]int{
		"/statuses": 404, "/approvals": 403, "/discussions": 500, "/all": 429, "/reviewers": 404,
	} {
		l.Fail(gitlabtest.Refusal(status, "no").On(http.MethodGet, path).Once())
		_, err := l.host.Look(t.Context(), labProject, number)
		failure(t, err)
	}
	l.look(t, number)
}

func TestGitLabTellsWhyACheckFailed(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	ctx := t.Context()
	l.AddPipeline(labProject, gitlabtest.Pipeline{
		SHA: l.Head(labProject, branch), Ref: branch, Status: "failed", YAMLErrors: "jobs:x config \x1b[2Jis wrong",
	})
	checks := l.look(t, number).Checks
	require.Equal(t, map[string]delivery.CheckState{"pipeline": delivery.CheckFailed}, states(checks))
	log, err := l.host.CheckLog(ctx, labProject, checks[0])
	require.NoError(t, err)
	require.Equal(t, delivery.CheckLog{Tail: "jobs:x config is wrong"}, log)

	l.Push(labProject, branch, map[string]string{"c.txt": "c\n"})
	trace := strings.Repeat("much earlier ü\n", 20_000) +
		"\x1b[0Ksection_start:1560896352:test[collapsed=true]\r\x1b[0K\x1b[36;1mTesting\x1b[0;m\n" +
		"2026-01-05T12:43:46.962646Z 00O --- FAIL: TestSum\n2026-01-05T12:43:46.962646Z 00E+want 2\rgot 3\x00\u202e\n" +
		"section_end:1560896353:test\r\x1b[0K\x1b[31;1mERROR: Job failed: exit code 1\x1b[0;m\n"
	l.SetJob(labProject, branch, gitlabtest.Job{
		Name: "unit", Stage: "test", Status: "failed", FailureReason: "script_failure", Log: trace,
	})
	l.SetStatus(labProject, branch, "external", "failed", "https://ci.example.com/1")
	checks = l.look(t, number).Checks
	log, err = l.host.CheckLog(ctx, labProject, checks[0])
	require.NoError(t, err)
	require.Equal(t, "test: script_failure", log.Step)
	require.LessOrEqual(t, len(log.Tail), delivery.MaxText)
	require.True(t, utf8.ValidString(log.Tail))
	_, end, _ := strings.Cut(log.Tail, "earlier ü\nTesting")
	require.Equal(t, "\n--- FAIL: TestSum\nwant 2\ngot 3\nERROR: Job failed: exit code 1", end)
	log, err = l.host.CheckLog(ctx, labProject, checks[1])
	require.NoError(t, err)
	require.Equal(t, delivery.CheckLog{}, log, "another system has it")
	_, err = l.host.CheckLog(ctx, labProject, delivery.Check{ID: "job/1"})
	require.Equal(t, failures.InvalidRequest, failure(t, err).Category)
}

func TestGitLabListsReviews(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	l.AddMember(labProject, "dora", gitlabtest.Developer)
	l.RequestChanges(labProject, number, "dora")
	l.Approve(labProject, number, "rita")
	l.Approve(labProject, number, "stranger")
	first := l.look(t, number)
	require.Len(t, first.Reviews, 3)
	for i, want := range []struct {
		person  delivery.Person
		verdict delivery.Verdict
	}{
		{delivery.Person{Name: "dora", Trusted: true}, delivery.ChangesRequested},
		{delivery.Person{Name: "rita", Trusted: true}, delivery.Approved},
		{delivery.Person{Name: "stranger"}, delivery.Approved},
	} {
		require.Equal(t, want.person, first.Reviews[i].By)
		require.Equal(t, want.verdict, first.Reviews[i].Verdict)
		require.False(t, first.Reviews[i].At.IsZero())
	}
	require.Equal(t, []string{"GitLab says requested changes"}, first.Blocked)
	require.Empty(t, first.Comments, "GitLab's own notes are no comments")
	require.Equal(t, first.Reviews, l.look(t, number).Reviews)

	l.Unapprove(labProject, number, "rita")
	l.RequestChanges(labProject, number, "dora")
	second := l.look(t, number)
	require.Len(t, second.Reviews, 2)
	require.Equal(t, "dora", second.Reviews[1].By.Name)
	require.NotEqual(t, first.Reviews[0].ID, second.Reviews[1].ID, "it is another review")
	l.Approve(labProject, number, "dora")
	require.Equal(t, delivery.Approved, l.look(t, number).Reviews[1].Verdict)
}

func TestGitLabKnowsWhomToTrust(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	l.AddUser("project_1_bot", true)
	l.AddMember(labProject, "project_1_bot", gitlabtest.Maintainer)
	l.AddMember(labProject, "left", gitlabtest.Maintainer)
	l.Block("left")
	want := map[string]bool{
		"rita": true, gitlabtest.Self: true, "gil": false, "stranger": false, "project_1_bot": false, "left": false,
	}
	for name := range want {
		l.Comment(labProject, number, name, "Hello")
	}
	for range 2 {
		got := map[string]bool{}
		for _, c := range l.look(t, number).Comments {
			got[c.By.Name] = c.By.Trusted
			require.Equal(t, c.By.Name == gitlabtest.Self, c.By.Self)
		}
		require.Equal(t, want, got)
	}
	require.Equal(t, 1, l.Count("GET", "/user"), "accounts do not change")
	l.AddMember(labProject, "rita", gitlabtest.Reporter)
	for _, c := range l.look(t, number).Comments {
		require.Equal(t, c.By.Self, c.By.Trusted, "rights change: %s", c.By.Name)
	}
}

func TestGitLabShowsTheHunkOfAThread(t *testing.T) {
	t.Parallel()
	l := newLab(t, gitlabtest.Project{})
	var long strings.Builder
	for i := range 40 {
		fmt.Fprintf(&long, "line %d\n", i+1)
	}
	l.Push(labProject, "main", map[string]string{"long.txt": long.String(), "old.txt": "a\nb\n"})
	text := strings.Replace(long.String(), "line 30\n", "line thirty\nline 30b\n", 1)
	l.Push(labProject, branch, map[string]string{"long.txt": text, "new.txt": "n1\nn2\nn3\n", "old.txt": "b\n"})
	number := l.open(t, delivery.New{Branch: branch, Base: "main", Title: "T"})
	l.Thread(labProject, number, "rita", "Why?", gitlabtest.Place{Path: "long.txt", Line: 31})
	l.Thread(labProject, number, "rita", "And?", gitlabtest.Place{Path: "new.txt", Line: 2})
	l.Thread(labProject, number, "rita", "The file?", gitlabtest.Place{Path: "new.txt"})
	l.Thread(labProject, number, "rita", "Gone?", gitlabtest.Place{Path: "old.txt", Removed: 1})
	l.Thread(labProject, number, "rita", "Far away?", gitlabtest.Place{Path: "long.txt", Line: 2})
	threads := l.look(t, number).Threads
	require.Len(t, threads, 5)
	require.Equal(t, 31, threads[0].Line)
	require.Equal(t, "@@ -27,7 +27,8 @@ line 26\n line 27\n line 28\n line 29\n-line 30\n+line thirty\n+line 30b", threads[0].Hunk)
	require.Equal(t, "@@ -0,0 +1,3 @@\n+n1\n+n2", threads[1].Hunk)
	require.Zero(t, threads[2].Line)
	require.Empty(t, threads[2].Hunk)
	require.Equal(t, "old.txt", threads[3].Path)
	require.Equal(t, 1, threads[3].Line)
	require.Empty(t, threads[4].Hunk)

	l.Push(labProject, branch, map[string]string{"new.txt": "other\n"})
	require.Zero(t, l.look(t, number).Threads[1].Line, "the line is gone")
}

func TestGitLabReadsTheNewestOfManyComments(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	thread := l.Thread(labProject, number, "rita", "First", gitlabtest.Place{})
	l.Comments(labProject, number, "gil", "spam", 10_000-1)
	l.Reply(labProject, number, thread, "rita", "Last")
	before := len(l.Requests())
	p := l.look(t, number)
	require.Less(t, len(l.Requests())-before, 25)
	require.Len(t, p.Comments, delivery.MaxComments)
	require.Equal(t, "spam 9999", p.Comments[len(p.Comments)-1].Body)
	require.Equal(t, "spam 9000", p.Comments[0].Body)

	l.Comments(labProject, number, "gil", "more", 2) // GitLab counts no longer lists
	before = len(l.Requests())
	l.look(t, number)
	require.Less(t, len(l.Requests())-before, 25)
}

func TestGitLabLeavesOutTheOldestComments(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	thread := l.Thread(labProject, number, "rita", "First", gitlabtest.Place{Path: "b.txt", Line: 1})
	l.Comments(labProject, number, "gil", "x", delivery.MaxComments-1)
	l.Reply(labProject, number, thread, "rita", "Last")
	// 1001 comments in 1000 discussions: the first comment of the thread is left out, and not the thread.
	p := l.look(t, number)
	require.Len(t, p.Threads, 1)
	require.Equal(t, "b.txt", p.Threads[0].Path)
	require.Len(t, p.Threads[0].Comments, 1)
	require.Equal(t, "Last", p.Threads[0].Comments[0].Body)
	require.Len(t, p.Comments, delivery.MaxComments-1)
}

func TestGitLabBoundsTexts(t *testing.T) {
	t.Parallel()
	l, number := opened(t, gitlabtest.Project{})
	long := strings.Repeat("ü", delivery.MaxText)
	l.SetTitle(labProject, number, long)
	l.Comment(labProject, number, "rita", long)
	l.SetJob(labProject, branch, gitlabtest.Job{Name: long, Status: "success"})
	require.NoError(t, l.host.Edit(t.Context(), labProject, number, delivery.Edit{Body: long}))
	p := l.look(t, number)
	require.Equal(t, long, p.Body, "it is written back")
	for _, text := range []string{p.Comments[0].Body, p.Checks[0].Name} {
		require.LessOrEqual(t, len(text), delivery.MaxText)
		require.True(t, utf8.ValidString(text))
		require.True(t, strings.HasSuffix(text, "[The text has 16.0 KiB. The rest is left out.]"))
	}
}

// Answers that GitLab would not give, but something in front of it might.
func TestGitLabSurvivesStrangeAnswers(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/discussions": `[null,{"id":"x","notes":[null,{"id":-1,"author":null,"position":{}},{"id":5,"system":true}]},{"notes":null}]`,
		"/approvals":   `{"approved_by":[null,{"user":null},{"user":{"id":0}}],"approvals_left":-5}`,
		"/reviewers":   `[null,{"user":null,"state":"requested_changes"}]`,
		"/statuses":    `[null,{"id":1,"name":"\u0000"}]`,
		"/all":         `[null,{"id":7,"access_level":50,"state":"active"}]`,
		"/diffs":       `[null,{"diff":"@@ -999999999999999999999,1 +x @@\n@@\n+"}]`,
		"/1":           `{"iid":1,"state":"merged","source_branch":"../../../user?x=1#","head_pipeline":{"sha":"x","ref":"refs/merge-requests/"}}`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			l, number := opened(t, gitlabtest.Project{})
			l.Thread(labProject, number, "rita", "Why?", gitlabtest.Place{Path: "b.txt", Line: 1})
			l.SetJob(labProject, branch, gitlabtest.Job{Name: "unit", Status: "success"})
			header := map[string]string{"X-Total-Pages": "-4", "X-Next-Page": "-1"}
			l.Fail(gitlabtest.Fault{Status: 200, Body: body, Header: header}.On(http.MethodGet, path))
			before := len(l.Requests())
			_, err := l.host.Look(t.Context(), labProject, number)
			if err != nil {
				failure(t, err)
			}
			require.Less(t, len(l.Requests())-before, 60)
		})
	}
}
