package gitlabtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Job is a job of a pipeline.
type Job struct {
	Name, Stage, Status, FailureReason, Log string
	AllowFailure                            bool
}

type pipeline struct {
	of               *project
	id               int64
	sha, ref, status string
	yamlErrors       string
}

// status is a job of a pipeline, or a status that another system has set.
type status struct {
	Job
	id       int64
	pipeline *pipeline
	external bool
	url      string
	retried  bool
}

// Pipeline is a pipeline. Its status follows from its jobs unless it is given.
type Pipeline struct {
	SHA, Ref, Status, YAMLErrors string
}

// AddPipeline starts a pipeline. Jobs that are set later belong to the newest one of their commit.
func (s *Server) AddPipeline(name string, p Pipeline) {
	s.change(name, func(to *project) { s.startPipeline(to, p) })
}

func (s *Server) startPipeline(to *project, p Pipeline) *pipeline {
	made := &pipeline{id: s.id(), sha: p.SHA, ref: p.Ref, status: p.Status, yamlErrors: p.YAMLErrors}
	to.pipelines = append(to.pipelines, made)
	return made
}

func (p *project) pipelineOf(sha string) *pipeline {
	for _, one := range slices.Backward(p.pipelines) {
		if one.sha == sha {
			return one
		}
	}
	return nil
}

// SetJob sets a job of the newest commit of a branch, and returns its id. A job that has ended runs again.
func (s *Server) SetJob(name, branch string, j Job) (id int64) {
	s.change(name, func(p *project) {
		sha := headOf(p.Dir, branch)
		of := p.pipelineOf(sha)
		if of == nil {
			of = s.startPipeline(p, Pipeline{SHA: sha, Ref: branch})
		}
		id = s.setJob(p, of, j).id
	})
	return id
}

func (s *Server) setJob(p *project, of *pipeline, j Job) *status {
	for _, old := range p.statuses {
		if old.pipeline == of && old.Name == j.Name && !old.external && !old.retried {
			if slices.Contains([]string{"created", "pending", "running"}, old.Status) {
				old.Job = j
				return old
			}
			old.retried = true
		}
	}
	made := &status{Job: j, id: s.id(), pipeline: of}
	p.statuses = append(p.statuses, made)
	return made
}

// SetStatus sets the status of another system for the newest commit of a branch.
func (s *Server) SetStatus(name, branch, check, state, url string) {
	s.change(name, func(p *project) {
		sha := headOf(p.Dir, branch)
		of := p.pipelineOf(sha)
		if of == nil {
			of = s.startPipeline(p, Pipeline{SHA: sha, Ref: branch})
		}
		for _, old := range p.statuses {
			old.retried = old.retried || old.external && old.pipeline == of && old.Name == check
		}
		p.statuses = append(p.statuses, &status{
			Job: Job{Name: check, Stage: "external", Status: state}, id: s.id(), pipeline: of, external: true, url: url,
		})
	})
}

// jobs are those of a pipeline that count.
func (p *project) jobs(of *pipeline) (all []*status) {
	for _, j := range p.statuses {
		if j.pipeline == of && !j.retried {
			all = append(all, j)
		}
	}
	return all
}

// headPipeline is the newest pipeline of the merge request, which may be one of an earlier commit.
func (mr *mergeRequest) headPipeline() *pipeline {
	for _, one := range slices.Backward(mr.project.pipelines) {
		if one.ref == mr.source || strings.HasPrefix(one.ref, fmt.Sprintf("refs/merge-requests/%d/", mr.number)) {
			one.of = mr.project
			return one
		}
	}
	return nil
}

// state is the status of a pipeline, which follows from those of its jobs.
func (p *pipeline) state() string {
	if p.status != "" {
		return p.status
	}
	state := "success"
	for _, j := range p.of.jobs(p) {
		switch j.Status {
		case "pending", "running":
			return "running"
		case "failed", "canceled":
			if !j.AllowFailure {
				state = "failed"
			}
		case "created":
			if state == "success" {
				state = "running"
			}
		case "manual":
			if !j.AllowFailure && state != "failed" {
				state = "manual"
			}
		}
	}
	return state
}

func (s *Server) pipelineJSON(of *project, p *pipeline) map[string]any {
	p.of = of
	return map[string]any{
		"id": p.id, "sha": p.sha, "ref": p.ref, "status": p.state(), "yaml_errors": null(p.yamlErrors),
		"web_url": fmt.Sprintf("%s/%s/-/pipelines/%d", s.URL(), of.Name, p.id),
	}
}

func (s *Server) listStatuses(c *call) (int, any) {
	if _, ok := git(c.project.Dir, "", "cat-file", "-e", c.r.PathValue("sha")+"^{commit}"); !ok {
		return notFound("Commit")
	}
	var all []map[string]any
	for _, j := range c.project.statuses {
		if j.pipeline.sha != c.r.PathValue("sha") || j.retried && c.text("all") != "true" {
			continue
		}
		all = append(all, map[string]any{
			"id": j.id, "status": j.Status, "name": j.Name, "target_url": null(j.url), "allow_failure": j.AllowFailure,
			"pipeline_id": j.pipeline.id,
		})
	}
	if c.text("sort") == "desc" {
		slices.Reverse(all)
	}
	return page(c, all)
}

// job finds a job of the call; nil: there is none.
func (c *call) job() *status {
	for _, j := range c.project.statuses {
		if j.id == c.number("job") && !j.external {
			return j
		}
	}
	return nil
}

func (s *Server) jobJSON(j *status) map[string]any {
	return map[string]any{"id": j.id, "stage": j.Stage, "failure_reason": null(j.FailureReason)}
}

func (s *Server) getJob(c *call) (int, any) {
	if j := c.job(); j != nil {
		return http.StatusOK, s.jobJSON(j)
	}
	return notFound("Job")
}

func (s *Server) getTrace(c *call) (int, any) {
	if j := c.job(); j != nil {
		return http.StatusOK, []byte(j.Log)
	}
	return notFound("Job")
}

func (s *Server) retryJob(c *call) (int, any) {
	j := c.job()
	switch {
	case j == nil:
		return notFound("Job")
	case j.retried || !slices.Contains([]string{"success", "failed", "canceled"}, j.Status):
		return refuse(http.StatusForbidden, "403 Forbidden - Job is not retryable")
	}
	again := s.setJob(c.project, j.pipeline, Job{Name: j.Name, Stage: j.Stage, Status: "pending", AllowFailure: j.AllowFailure})
	return http.StatusCreated, s.jobJSON(again)
}

func (s *Server) getPipeline(c *call) (int, any) {
	for _, p := range c.project.pipelines {
		if p.id == c.number("pipeline") {
			return http.StatusOK, s.pipelineJSON(c.project, p)
		}
	}
	return notFound("Pipeline")
}
