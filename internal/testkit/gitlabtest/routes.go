package gitlabtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.on("GET", "/user", func(*call) (int, any) { return http.StatusOK, s.user(Self).json() })
	s.on("GET", "/users", s.listUsers)
	s.on("GET", "/users/{user}", s.getUser)
	s.on("GET", "/projects/{id}", s.getProject)
	s.on("GET", "/projects/{id}/members/all", s.listMembers)
	s.on("GET", "/projects/{id}/repository/branches/{branch}", s.getBranch)
	s.on("GET", "/projects/{id}/repository/commits/{sha}", s.getCommit)
	s.on("GET", "/projects/{id}/repository/commits/{sha}/statuses", s.listStatuses)
	s.on("GET", "/projects/{id}/pipelines/{pipeline}", s.getPipeline)
	s.on("GET", "/projects/{id}/jobs/{job}", s.getJob)
	s.on("GET", "/projects/{id}/jobs/{job}/trace", s.getTrace)
	s.on("POST", "/projects/{id}/jobs/{job}/retry", s.retryJob)
	s.on("GET", "/projects/{id}/merge_requests", s.listMergeRequests)
	s.on("POST", "/projects/{id}/merge_requests", s.createMergeRequest)
	s.on("POST", "/projects/{id}/merge_trains/merge_requests/{iid}", s.addToTrain)
	const one = "/projects/{id}/merge_requests/{iid}"
	s.on("GET", one, func(c *call) (int, any) { return http.StatusOK, s.json(c.mr) })
	s.on("PUT", one, s.updateMergeRequest)
	s.on("PUT", one+"/merge", s.acceptMergeRequest)
	s.on("GET", one+"/approvals", s.getApprovals)
	s.on("GET", one+"/reviewers", s.listReviewers)
	s.on("GET", one+"/diffs", s.listDiffs)
	s.on("POST", one+"/notes", s.createNote)
	s.on("GET", one+"/discussions", s.listDiscussions)
	s.on("PUT", one+"/discussions/{discussion}", s.resolveDiscussion)
	s.on("POST", one+"/discussions/{discussion}/notes", s.createReply)
}

func (s *Server) listUsers(c *call) (int, any) {
	var all []map[string]any
	for _, u := range s.users {
		if strings.EqualFold(u.name, c.text("username")) {
			all = append(all, u.json())
		}
	}
	return page(c, all)
}

func (s *Server) getUser(c *call) (int, any) {
	for _, u := range s.users {
		if u.id == c.number("user") {
			m := u.json()
			m["bot"] = u.bot
			return http.StatusOK, m
		}
	}
	return notFound("User")
}

func (s *Server) getProject(c *call) (int, any) {
	p := c.project
	method := "merge"
	if p.FastForward {
		method = "ff"
	}
	return http.StatusOK, map[string]any{
		"id": p.id, "path_with_namespace": p.Name, "default_branch": p.DefaultBranch, "archived": p.archived, "merge_method": method,
		"merge_trains_enabled": p.Trains,
	}
}

func (s *Server) listMembers(c *call) (int, any) {
	var all []map[string]any
	ids := c.r.URL.Query()["user_ids[]"]
	for _, u := range s.users {
		level, ok := c.project.members[u]
		if ok && (len(ids) == 0 || slices.Contains(ids, strconv.FormatInt(u.id, 10))) {
			m := u.json()
			m["access_level"] = level
			all = append(all, m)
		}
	}
	return page(c, all)
}

func (s *Server) getBranch(c *call) (int, any) {
	name := c.r.PathValue("branch")
	head := headOf(c.project.Dir, name)
	if head == "" {
		return notFound("Branch")
	}
	return http.StatusOK, map[string]any{"name": name, "commit": map[string]any{"id": head}}
}

func (s *Server) getCommit(c *call) (int, any) {
	parents, ok := git(c.project.Dir, "", "rev-parse", c.r.PathValue("sha")+"^@")
	if !ok {
		return notFound("Commit")
	}
	return http.StatusOK, map[string]any{"id": c.r.PathValue("sha"), "parent_ids": strings.Fields(parents)}
}

func (s *Server) getApprovals(c *call) (int, any) {
	by := []any{}
	for _, u := range c.mr.approvals {
		by = append(by, map[string]any{"user": u.json()})
	}
	return http.StatusOK, map[string]any{"approvals_left": max(0, c.project.Approvals-len(by)), "approved_by": by}
}

func (s *Server) listReviewers(c *call) (int, any) {
	all := []any{}
	for _, u := range s.users {
		if state, ok := c.mr.reviewers[u]; ok {
			all = append(all, map[string]any{"user": u.json(), "state": state, "created_at": timeOf(c.mr.id)})
		}
	}
	return http.StatusOK, all
}

func (s *Server) listDiffs(c *call) (int, any) {
	return page(c, diffs(c.project.Dir, fmt.Sprint(c.mr.refs(c.project)["base_sha"]), c.mr.sha))
}

func (s *Server) createNote(c *call) (int, any) {
	n := s.talk(c.mr, s.user(Self), c.text("body"), true, false, nil)
	s.execute(c.mr, n.body)
	return http.StatusCreated, n.json(false)
}

func (s *Server) listDiscussions(c *call) (int, any) {
	status, some := page(c, c.mr.discussions)
	all := []map[string]any{}
	for _, d := range some.([]*discussion) {
		all = append(all, d.json())
	}
	return status, all
}

func (s *Server) resolveDiscussion(c *call) (int, any) {
	d := c.mr.discussion(c.r.PathValue("discussion"))
	if d == nil {
		return notFound("Discussion")
	}
	d.resolve(c.text("resolved") == "true")
	return http.StatusOK, d.json()
}

func (s *Server) createReply(c *call) (int, any) {
	d := c.mr.discussion(c.r.PathValue("discussion"))
	if d == nil {
		return notFound("Discussion")
	}
	n := s.reply(c.mr, d, s.user(Self), c.text("body"))
	s.execute(c.mr, n.body)
	return http.StatusCreated, n.json(true)
}
