package codehost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// The kinds of checks. Together with an id they are the id of a check.
const (
	jobCheck      = "job"
	statusCheck   = "status"
	pipelineCheck = "pipeline"
)

// checks lists the checks of a commit: the jobs of the pipeline that GitLab counts, and the statuses that others have set.
func (l *gitlabLook) checks(ctx context.Context, head string) ([]delivery.Check, error) {
	p := l.mr.HeadPipeline
	commits := []string{head}
	if p != nil && p.SHA != head {
		ofHead, err := l.tests(ctx, p, head)
		switch {
		case err != nil:
			return nil, err
		case ofHead:
			commits = append(commits, p.SHA)
		case l.mr.SHA != head: // GitLab has not seen the commit yet, and will start a pipeline
			return []delivery.Check{{Name: pipelineCheck, State: delivery.CheckPending}}, nil
		default:
			p = nil
		}
	}
	var all []*gitlab.CommitStatus
	for _, sha := range commits {
		options := &gitlab.GetCommitStatusesOptions{
			ListOptions: gitlab.ListOptions{PerPage: perPage, OrderBy: "id", Sort: "desc"}, All: gitlab.Ptr(true),
		}
		some, err := pages(func(page gitlab.RequestOptionFunc) ([]*gitlab.CommitStatus, *gitlab.Response, error) {
			return l.api.Commits.GetCommitStatuses(l.project, sha, options, page, in(ctx))
		})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	web, _, _ := strings.Cut(l.mr.WebURL, "/-/")
	return checksOf(all, p, web), nil
}

// tests reports whether a pipeline tests the merge of a commit with the base.
func (l *gitlabLook) tests(ctx context.Context, p *gitlab.Pipeline, head string) (bool, error) {
	if !strings.HasPrefix(p.Ref, "refs/merge-requests/") {
		return false, nil
	}
	merge, err := got(l.api.Commits.GetCommit(l.project, p.SHA, nil, in(ctx)))
	if errors.Is(err, gitlab.ErrNotFound) {
		return false, nil
	}
	return err == nil && slices.Contains(merge.ParentIDs, head), err
}

// checksOf are the newest statuses of each name. A commit can have pipelines that GitLab does not count; their jobs are left out.
// A pipeline that failed without a failed job, such as one whose file is wrong, is a check of its own, as is one that still runs
// without a job.
func checksOf(statuses []*gitlab.CommitStatus, p *gitlab.Pipeline, web string) (checks []delivery.Check) {
	whole := delivery.CheckPassed
	if p != nil {
		whole = checkState(p.Status, false, false)
	}
	slices.SortFunc(statuses, func(a, b *gitlab.CommitStatus) int { return cmp.Compare(a.ID, b.ID) })
	at := map[string]int{}
	for _, s := range statuses {
		c := delivery.Check{ID: fmt.Sprintf("%s/%d", statusCheck, s.ID), Name: cut(s.Name), URL: s.TargetURL, Runs: 1}
		c.State = checkState(s.Status, s.AllowFailure, whole != delivery.CheckPending)
		if s.TargetURL == "" || strings.HasSuffix(s.TargetURL, fmt.Sprintf("s/%d", s.ID)) {
			if p == nil || p.ID != s.PipelineID {
				continue
			}
			c.ID, c.URL = fmt.Sprintf("%s/%d", jobCheck, s.ID), fmt.Sprintf("%s/-/jobs/%d", web, s.ID)
			c.Rerunnable = s.Status == "success" || s.Status == "failed" || s.Status == "canceled"
		}
		i, known := at[s.Name]
		if !known {
			at[s.Name] = len(checks)
			checks = append(checks, c)
			continue
		}
		c.Runs += checks[i].Runs
		checks[i] = c
	}
	if whole != delivery.CheckPassed && !slices.ContainsFunc(checks, func(c delivery.Check) bool { return c.State == whole }) {
		checks = append(checks, delivery.Check{
			ID: fmt.Sprintf("%s/%d", pipelineCheck, p.ID), Name: pipelineCheck, URL: p.WebURL, State: whole,
		})
	}
	return checks
}

// checkState is the state of a job, a status or a pipeline. A job that comes after a manual one is created and stays so: the
// pipeline rests then.
func checkState(status string, mayFail, pipelineRests bool) delivery.CheckState {
	switch {
	case slices.Contains([]string{"success", "skipped", "manual"}, status), status == "created" && pipelineRests:
		return delivery.CheckPassed
	case status != "failed" && status != "canceled":
		return delivery.CheckPending
	case mayFail:
		return delivery.CheckPassed
	}
	return delivery.CheckFailed
}

// parseCheck reads the id of a check.
func (g *GitLab) parseCheck(c delivery.Check) (kind string, id int64, err error) {
	kind, number, _ := strings.Cut(c.ID, "/")
	if id, err = strconv.ParseInt(number, 10, 64); err != nil {
		err = failures.Failf(failures.InvalidRequest, "%q is not the id of a check of GitLab", g.line(c.ID))
	}
	return kind, id, err
}

// CheckLog returns why a check failed.
func (g *GitLab) CheckLog(ctx context.Context, repository string, c delivery.Check) (log delivery.CheckLog, err error) {
	kind, id, err := g.parseCheck(c)
	switch {
	case err != nil || kind == statusCheck:
		return log, err
	case kind == pipelineCheck:
		var p *gitlab.Pipeline
		if p, err = got(g.api.Pipelines.GetPipeline(repository, id, in(ctx))); err == nil {
			log.Tail = textfmt.Tail(safetext.Block(p.YamlErrors), delivery.MaxText)
		}
		return log, g.fail(err, "read pipeline %d of %s", id, repository)
	}
	job, err := got(g.api.Jobs.GetJob(repository, id, in(ctx)))
	if err != nil {
		return log, g.fail(err, "read job %d of %s", id, repository)
	}
	log.Step = strings.TrimRight(g.line(job.Stage)+": "+g.line(job.FailureReason), ": ")
	trace, _, err := g.api.Jobs.GetTraceFile(repository, id, in(ctx))
	if err == nil {
		text, _ := io.ReadAll(trace) // it is in memory
		log.Tail = tailOfTrace(text)
	}
	return log, g.fail(err, "read the log of job %d of %s", id, repository)
}

// traceMarks are what GitLab's runner writes into a log for itself: the time of each line, and where a section begins and ends.
var traceMarks = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT[\d:.]+Z \d\d[OE][ +]?|section_(?:start|end):\d+:[\w.-]+(?:\[[\w=,.-]*\])?\r?`)

// tailOfTrace is the end of a job's log.
func tailOfTrace(trace []byte) string {
	trace = trace[max(0, len(trace)-8*delivery.MaxText):]
	text := safetext.Block(string(traceMarks.ReplaceAll(trace, nil)))
	return textfmt.Tail(strings.TrimSpace(text), delivery.MaxText)
}

// Rerun runs a job again. GitLab refuses that for a job that was run again already: the request's answer was lost.
func (g *GitLab) Rerun(ctx context.Context, repository string, c delivery.Check) error {
	kind, id, err := g.parseCheck(c)
	if err == nil && kind != jobCheck {
		err = failures.Failf(failures.InvalidRequest, "%s is no job of GitLab, so that it cannot be run again", g.line(c.Name))
	}
	if err != nil {
		return err
	}
	_, _, err = g.api.Jobs.RetryJob(repository, id, in(ctx))
	if gitlab.HasStatusCode(err, http.StatusForbidden) && strings.Contains(err.Error(), "not retryable") {
		return nil
	}
	return g.fail(err, "run job %d of %s again", id, repository)
}
