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

	"github.com/google/go-github/v89/github"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// The ids of checks begin with what they are: a job of GitHub Actions and its id, a check run of another app, its id and that
// of its suite, or a commit status, its commit and its id.
const (
	jobID    = "job-"
	runID    = "run-"
	statusID = "status-"
)

const (
	actionsApp     = "github-actions"
	maxAnnotations = 20
	// maxLog bounds what is read of a log, and logTail what of it is looked at, in bytes.
	maxLog  = 128 << 20
	logTail = 64 << 10
)

// checks reads the check runs and the statuses of the head.
func (l *look) checks(ctx context.Context) error {
	if l.pr.State != session.PullOpen {
		return nil
	}
	workflows, err := l.workflows(ctx)
	if err != nil {
		return err
	}
	latest := "latest"
	runs, err := newest(func(page github.ListOptions) ([]*github.CheckRun, *github.Response, error) {
		got, resp, err := l.api.Checks.ListCheckRunsForRef(ctx, l.owner, l.name, l.pr.Head,
			&github.ListCheckRunsOptions{Filter: &latest, ListOptions: page})
		return got.GetCheckRuns(), resp, err
	})
	hidden := false
	if denied, ok := errors.AsType[*failures.Failure](l.fail(err, "read the checks")); ok && denied.Category == failures.Auth {
		hidden = true
		runs, err = l.jobs(ctx, workflows)
	}
	if err != nil {
		return err
	}
	// Workflows may have jobs of the same name, and each of their events runs them.
	newestRun := map[string]*github.CheckRun{}
	started := map[int64]bool{}
	for _, run := range runs {
		suite := run.GetCheckSuite().GetID()
		started[suite] = true
		w := workflows[suite]
		key := fmt.Sprint(run.GetApp().GetID(), w.GetWorkflowID(), w.GetEvent(), " ", run.GetName())
		if old := newestRun[key]; old == nil || old.GetID() < run.GetID() {
			newestRun[key] = run
		}
	}
	for _, run := range newestRun {
		l.pr.Checks = append(l.pr.Checks, checkOf(run, workflows[run.GetCheckSuite().GetID()]))
	}
	for suite, w := range workflows {
		if !started[suite] && (w.GetStatus() != "completed" || w.GetConclusion() == "action_required") {
			l.pr.Checks = append(l.pr.Checks, delivery.Check{
				ID: fmt.Sprintf("workflow-%d", w.GetID()), Name: cut(w.GetName()), URL: cut(w.GetHTMLURL()), State: delivery.CheckPending,
			})
		}
	}
	if err := l.statuses(ctx); err != nil {
		return err
	}
	open := slices.ContainsFunc(l.pr.Checks, func(c delivery.Check) bool { return c.State != delivery.CheckPassed })
	if hidden && !open && l.found.GetMergeableState() == "unstable" {
		l.pr.Checks = append(l.pr.Checks, delivery.Check{
			ID: "hidden", Name: "one that the credentials may not read", URL: l.pr.URL + "/checks", State: delivery.CheckPending,
		})
	}
	slices.SortFunc(l.pr.Checks, func(a, b delivery.Check) int { return strings.Compare(a.Name+" "+a.ID, b.Name+" "+b.ID) })
	return nil
}

// jobs returns the jobs of GitHub Actions in place of check runs, which fine-grained tokens may not read. Of the checks of other
// apps it is known then only whether all have passed.
func (l *look) jobs(ctx context.Context, workflows map[int64]*github.WorkflowRun) (runs []*github.CheckRun, err error) {
	for suite, w := range workflows {
		jobs, err := newest(func(page github.ListOptions) ([]*github.WorkflowJob, *github.Response, error) {
			got, resp, err := l.api.Actions.ListWorkflowJobs(ctx, l.owner, l.name, w.GetID(),
				&github.ListWorkflowJobsOptions{ListOptions: page})
			return got.GetJobs(), resp, err
		})
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			runs = append(runs, &github.CheckRun{
				ID: j.ID, Name: j.Name, Status: j.Status, Conclusion: j.Conclusion, HTMLURL: j.HTMLURL,
				App: &github.App{Slug: github.Ptr(actionsApp)}, CheckSuite: &github.CheckSuite{ID: &suite},
			})
		}
	}
	return runs, nil
}

// workflows returns the runs of GitHub Actions by their check suites; none where Actions may not be read.
func (l *look) workflows(ctx context.Context) (map[int64]*github.WorkflowRun, error) {
	all, err := newest(func(page github.ListOptions) ([]*github.WorkflowRun, *github.Response, error) {
		got, resp, err := l.api.Actions.ListRepositoryWorkflowRuns(ctx, l.owner, l.name,
			&github.ListWorkflowRunsOptions{HeadSHA: l.pr.Head, ListOptions: page})
		return got.GetWorkflowRuns(), resp, err
	})
	if err = l.fail(err, "read the workflow runs of "+l.String()); mayPass(err) {
		return nil, err
	}
	by := map[int64]*github.WorkflowRun{}
	for _, w := range all {
		by[w.GetCheckSuiteID()] = w
	}
	return by, nil
}

func checkOf(run *github.CheckRun, w *github.WorkflowRun) delivery.Check {
	c := delivery.Check{
		ID: fmt.Sprintf("%s%d-%d", runID, run.GetID(), run.GetCheckSuite().GetID()), Name: cut(run.GetName()),
		URL: cut(run.GetHTMLURL()), State: delivery.CheckFailed, Runs: w.GetRunAttempt(), Rerunnable: run.GetStatus() == "completed",
	}
	if run.GetApp().GetSlug() == actionsApp {
		c.ID = jobID + strconv.FormatInt(run.GetID(), 10)
	}
	switch run.GetConclusion() {
	case "success", "neutral", "skipped":
		c.State = delivery.CheckPassed
	case "action_required": // a person has to act on GitHub
		c.State = delivery.CheckPending
	}
	if run.GetStatus() != "completed" {
		c.State = delivery.CheckPending
	}
	return c
}

func (l *look) statuses(ctx context.Context) error {
	all, err := l.statusesOf(ctx, l.githubRepo, l.pr.Head)
	states := map[string]delivery.CheckState{"success": delivery.CheckPassed, "pending": delivery.CheckPending}
	for _, s := range all {
		l.pr.Checks = append(l.pr.Checks, delivery.Check{
			ID: fmt.Sprintf("%s%s-%d", statusID, l.pr.Head, s.GetID()), Name: cut(s.GetContext()), URL: cut(s.GetTargetURL()),
			State: cmp.Or(states[s.GetState()], delivery.CheckFailed),
		})
	}
	return err
}

// statusesOf returns the newest status of each name of a commit.
func (g *GitHub) statusesOf(ctx context.Context, r githubRepo, commit string) ([]*github.RepoStatus, error) {
	return newest(func(page github.ListOptions) ([]*github.RepoStatus, *github.Response, error) {
		got, resp, err := g.api.Repositories.GetCombinedStatus(ctx, r.owner, r.name, commit, &page)
		return got.GetStatuses(), resp, err
	})
}

// CheckLog says why a check failed.
func (g *GitHub) CheckLog(ctx context.Context, repository string, c delivery.Check) (log delivery.CheckLog, err error) {
	err = g.do(ctx, repository, "read the log of a check", func(ctx context.Context, r githubRepo) error {
		kind, rest, _ := strings.Cut(c.ID, "-")
		id, rest, _ := strings.Cut(rest, "-")
		switch kind + "-" {
		case jobID:
			return g.jobLog(ctx, r, idOf(id), &log)
		case runID:
			return g.runLog(ctx, r, idOf(id), &log)
		}
		all, err := g.statusesOf(ctx, r, id)
		for _, s := range all {
			if s.GetID() == idOf(rest) {
				log.Tail = tailOfLog([]byte(s.GetDescription() + "\n" + s.GetTargetURL()))
			}
		}
		return err
	})
	return log, err
}

func (g *GitHub) jobLog(ctx context.Context, r githubRepo, id int64, log *delivery.CheckLog) error {
	job, _, err := g.api.Actions.GetWorkflowJobByID(ctx, r.owner, r.name, id)
	if err != nil {
		return err
	}
	passed := []string{"", "success", "skipped", "neutral"}
	i := slices.IndexFunc(job.GetSteps(), func(s *github.TaskStep) bool { return !slices.Contains(passed, s.GetConclusion()) })
	if i >= 0 {
		log.Step = safetext.Clip(job.Steps[i].GetName(), maxSentence)
	}
	log.Annotations, err = g.annotations(ctx, r, id)
	if err := g.fail(err, "read the annotations of a job"); mayPass(err) { // where they may not be read, the log is there
		return err
	}
	log.Tail, err = g.logTail(ctx, r, id)
	return err
}

func (g *GitHub) runLog(ctx context.Context, r githubRepo, id int64, log *delivery.CheckLog) error {
	run, _, err := g.api.Checks.GetCheckRun(ctx, r.owner, r.name, id)
	if err != nil {
		return err
	}
	out := run.GetOutput()
	log.Tail = tailOfLog([]byte(out.GetTitle() + "\n" + out.GetSummary() + "\n" + out.GetText()))
	log.Annotations, err = g.annotations(ctx, r, id)
	return err
}

// annotations are the problems that a check run names, errors first. Those without a file only say that the job failed.
func (g *GitHub) annotations(ctx context.Context, r githubRepo, id int64) (out []string, err error) {
	all, _, err := g.api.Checks.ListCheckRunAnnotations(ctx, r.owner, r.name, id, &github.ListOptions{PerPage: perPage})
	slices.SortStableFunc(all, func(a, b *github.CheckRunAnnotation) int {
		return strings.Compare(a.GetAnnotationLevel(), b.GetAnnotationLevel()) // failure, notice, warning
	})
	for _, a := range all {
		if a.GetPath() != ".github" && len(out) < maxAnnotations {
			out = append(out, g.line(fmt.Sprintf("%s:%d: %s", a.GetPath(), a.GetStartLine(), a.GetMessage())))
		}
	}
	return out, err
}

// logStore are the hosts that store the logs of github.com.
var logStore = regexp.MustCompile(`^productionresultssa\d+\.blob\.core\.windows\.net$|\.githubusercontent\.com$`)

// logTail is the end of a job's log; empty if GitHub has none. GitHub redirects to a store: the address has what is needed to
// read it, gets no credentials, and is in no text.
func (g *GitHub) logTail(ctx context.Context, r githubRepo, id int64) (string, error) {
	req, err := g.api.NewRequest(ctx, http.MethodGet, fmt.Sprintf("repos/%s/actions/jobs/%d/logs", r, id), nil)
	if err != nil {
		return "", err
	}
	answer, err := g.api.BareDo(req)
	var redirect *github.RedirectionError
	switch {
	case err == nil:
		defer answer.Body.Close() //nolint:errcheck // It was only read.
		return readTail(answer.Body)
	case says(err, http.StatusNotFound, ""), says(err, http.StatusGone, ""):
		return "", nil
	case !errors.As(err, &redirect) || redirect.Location == nil:
		return "", err
	}
	at := redirect.Location
	if g.web.Host != "github.com" || at.Scheme != "https" || !logStore.MatchString(at.Host) {
		return fmt.Sprintf("[The log is at %s, which Maestro does not read.]", g.line(at.Host)), nil
	}
	if req, err = http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil); err != nil {
		return "", err
	}
	stored, err := g.elsewhere.Do(req)
	if err != nil {
		return "", err
	}
	defer stored.Body.Close() //nolint:errcheck // It was only read.
	if stored.StatusCode != http.StatusOK {
		return "", nil
	}
	return readTail(stored.Body)
}

// readTail reads a log, and keeps its end. A log that is too long ends where it was cut.
func readTail(r io.Reader) (string, error) {
	tail, buf := []byte{}, make([]byte, logTail)
	r = io.LimitReader(r, maxLog)
	for {
		n, err := r.Read(buf)
		tail = append(tail, buf[:n]...)
		tail = tail[max(0, len(tail)-logTail):]
		var long *http.MaxBytesError
		if err == io.EOF || errors.As(err, &long) {
			return tailOfLog(tail), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// Rerun runs a check again.
func (g *GitHub) Rerun(ctx context.Context, repository string, c delivery.Check) error {
	err := g.do(ctx, repository, "run a check again", func(ctx context.Context, r githubRepo) (err error) {
		if id, ok := strings.CutPrefix(c.ID, jobID); ok {
			if _, err = g.api.Actions.RerunJobByID(ctx, r.owner, r.name, idOf(id)); says(err, http.StatusForbidden, "already running") {
				return nil
			}
			return err
		}
		_, suite, _ := strings.Cut(strings.TrimPrefix(c.ID, runID), "-")
		_, err = g.api.Checks.ReRequestCheckSuite(ctx, r.owner, r.name, idOf(suite))
		return err
	})
	var f *failures.Failure
	if errors.As(err, &f) && f.Category == failures.Auth && strings.HasPrefix(c.ID, runID) {
		f.Category = failures.InvalidRequest // an app may refuse that to others
	}
	return err
}
