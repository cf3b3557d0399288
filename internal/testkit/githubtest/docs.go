package githubtest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

type doc = map[string]any

func (s *Server) api(format string, args ...any) string {
	return s.URL + "/api/v3/" + fmt.Sprintf(format, args...)
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// user is an account: null for an empty name, a bot if the name says so.
func (s *Server) user(login string) any {
	if login == "" {
		return nil
	}
	kind, id := "User", int64(1)
	if strings.HasSuffix(login, "[bot]") {
		kind = "Bot"
	}
	for _, c := range login {
		id = id*31%1_000_003 + int64(c)
	}
	u := s.api("users/%s", login)
	return doc{
		"login": login, "id": id, "node_id": "U_" + login, "avatar_url": s.URL + "/a/" + login, "gravatar_id": "", "url": u,
		"html_url": s.URL + "/" + login, "followers_url": u + "/followers", "following_url": u + "/following{/other_user}",
		"gists_url": u + "/gists{/gist_id}", "starred_url": u + "/starred{/owner}{/repo}", "subscriptions_url": u + "/subscriptions",
		"organizations_url": u + "/orgs", "repos_url": u + "/repos", "events_url": u + "/events{/privacy}",
		"received_events_url": u + "/received_events", "type": kind, "site_admin": false,
	}
}

func (r *Repository) doc() doc {
	return doc{
		"id": r.id, "node_id": "R_" + strconv.FormatInt(r.id, 10), "name": r.name, "full_name": r.full(), "private": true,
		"owner": r.s.user(r.owner), "html_url": r.s.URL + "/" + r.full(), "description": nil, "fork": false,
		"url": r.s.api("repos/%s", r.full()), "archived": r.archived, "disabled": false, "default_branch": "main",
		"clone_url": r.s.URL + "/" + r.full() + ".git", "visibility": "private", "created_at": "2026-01-01T00:00:00Z",
	}
}

func (r *Repository) branchDoc(ref, sha string) doc {
	return doc{"label": r.owner + ":" + ref, "ref": ref, "sha": sha, "repo": r.doc(), "user": r.s.user(r.owner)}
}

// page is the page of a pull request for people.
func (r *Repository) page(p *pull) string {
	return fmt.Sprintf("%s/%s/pull/%d", r.s.URL, r.full(), p.Number)
}

func (p *pull) nodeID() string { return "PR_" + strconv.FormatInt(p.id, 10) }

// pullDoc is a pull request as lists and events have it.
func (r *Repository) pullDoc(p *pull) doc {
	end := func(is bool) any {
		if is {
			return stamp(p.changed)
		}
		return nil
	}
	return doc{
		"id": p.id, "node_id": p.nodeID(), "number": p.Number, "state": p.State, "locked": false, "title": p.Title, "body": p.Body,
		"user": r.s.user(Login), "draft": p.Draft, "url": r.s.api("repos/%s/pulls/%d", r.full(), p.Number),
		"html_url": r.page(p), "created_at": stamp(p.created), "updated_at": stamp(p.changed),
		"closed_at": end(p.State != "open"), "merged_at": end(p.Merged), "head": r.branchDoc(p.Branch, p.head),
		"base": r.branchDoc(p.Base, r.sha(p.Base)), "author_association": "COLLABORATOR", "merge_commit_sha": p.MergedAs,
	}
}

// wholePullDoc is a pull request as GitHub answers a request for one.
func (r *Repository) wholePullDoc(p *pull) doc {
	d := r.pullDoc(p)
	d["merged"], d["merged_by"], d["mergeable"], d["mergeable_state"] = p.Merged, r.s.user(p.mergedBy), nil, "unknown"
	if p.State == "open" {
		state, _ := r.blocked(p)
		d["mergeable_state"] = state
		if state != "unknown" {
			d["mergeable"] = state != "dirty"
		}
	}
	d["comments"], d["review_comments"] = len(p.comments), len(p.lines)
	return d
}

func (r *Repository) issueDoc(p *pull) doc {
	return doc{
		"id": p.id, "node_id": p.nodeID(), "number": p.Number, "state": p.State, "title": p.Title, "body": p.Body,
		"user": r.s.user(Login), "html_url": r.page(p), "closed_by": r.s.user(p.endedBy),
		"pull_request": doc{"url": r.s.api("repos/%s/pulls/%d", r.full(), p.Number)}, "created_at": stamp(p.created),
		"updated_at": stamp(p.changed),
	}
}

func (r *Repository) commentDoc(p *pull, c *comment) doc {
	return doc{
		"id": c.id, "node_id": fmt.Sprintf("IC_%d", c.id), "body": c.body, "user": r.s.user(c.login), "created_at": stamp(c.at),
		"updated_at": stamp(c.at), "author_association": c.association,
		"url":      r.s.api("repos/%s/issues/comments/%d", r.full(), c.id),
		"html_url": fmt.Sprintf("%s#issuecomment-%d", r.page(p), c.id),
	}
}

func (r *Repository) lineDoc(p *pull, c *comment) doc {
	d := r.commentDoc(p, c)
	d["node_id"], d["path"], d["diff_hunk"] = fmt.Sprintf("PRRC_%d", c.id), c.path, c.hunk
	d["html_url"] = fmt.Sprintf("%s#discussion_r%d", r.page(p), c.id)
	d["url"] = r.s.api("repos/%s/pulls/comments/%d", r.full(), c.id)
	if d["subject_type"] = "file"; c.line > 0 {
		d["subject_type"], d["line"], d["side"] = "line", c.line, "RIGHT"
	}
	if c.replyTo != 0 {
		d["in_reply_to_id"] = c.replyTo
	}
	return d
}

func (r *Repository) reviewDoc(p *pull, v *review) doc {
	return doc{
		"id": v.id, "node_id": fmt.Sprintf("PRR_%d", v.id), "user": r.s.user(v.login), "body": v.body, "state": v.verdict,
		"submitted_at": stamp(v.at), "commit_id": v.commit, "author_association": v.association,
		"html_url": fmt.Sprintf("%s#pullrequestreview-%d", r.page(p), v.id),
	}
}

// conclude are the status and the conclusion of a check.
func (c *check) conclude() (status string, conclusion any) {
	if c.conclusion == "" {
		return "in_progress", nil
	}
	return "completed", c.conclusion
}

func (r *Repository) checkDoc(c *check) doc {
	state, conclusion := c.conclude()
	d := doc{
		"id": c.id, "node_id": fmt.Sprintf("CR_%d", c.id), "head_sha": c.sha, "name": c.name, "status": state, "conclusion": conclusion,
		"started_at": stamp(c.at), "completed_at": nil, "url": r.s.api("repos/%s/check-runs/%d", r.full(), c.id),
		"html_url": fmt.Sprintf("%s/%s/runs/%d", r.s.URL, r.full(), c.id), "check_suite": doc{"id": c.suite},
		"app":    doc{"id": len(c.app), "slug": c.app, "name": c.app},
		"output": doc{"title": nil, "summary": nil, "text": nil, "annotations_count": len(c.annotations)},
	}
	if conclusion != nil {
		d["completed_at"] = stamp(c.at)
	}
	if c.app != "github-actions" {
		d["output"] = doc{"title": c.name, "summary": c.log, "text": nil, "annotations_count": len(c.annotations)}
	}
	d["pull_requests"] = r.pullsOf(c.sha)
	return d
}

func (r *Repository) pullsOf(sha string) []doc {
	out := []doc{}
	for _, p := range r.pulls {
		if p.head == sha {
			out = append(out, doc{"id": p.id, "number": p.Number, "url": r.s.api("repos/%s/pulls/%d", r.full(), p.Number)})
		}
	}
	return out
}

func (r *Repository) runDoc(c *check) doc {
	state, conclusion := c.conclude()
	id := int64(1)
	for _, b := range c.workflow {
		id = id*31%1_000_003 + int64(b)
	}
	return doc{
		"id": c.run, "name": c.workflow, "node_id": fmt.Sprintf("WFR_%d", c.run), "head_sha": c.sha, "event": "pull_request",
		"status": state, "conclusion": conclusion, "workflow_id": id, "check_suite_id": c.suite, "run_attempt": c.attempt,
		"run_number": 1,
		"html_url":   fmt.Sprintf("%s/%s/actions/runs/%d", r.s.URL, r.full(), c.run),
	}
}

func (r *Repository) jobDoc(c *check) doc {
	state, conclusion := c.conclude()
	return doc{
		"id": c.id, "run_id": c.run, "name": c.name, "workflow_name": c.workflow, "head_sha": c.sha, "status": state,
		"conclusion": conclusion, "run_attempt": c.attempt, "html_url": fmt.Sprintf("%s/%s/runs/%d", r.s.URL, r.full(), c.id),
		"steps": []doc{
			{"name": "Set up job", "status": "completed", "conclusion": "success", "number": 1},
			{"name": "Run " + c.name, "status": state, "conclusion": conclusion, "number": 2},
			{"name": "Complete job", "status": "completed", "conclusion": "success", "number": 3},
		},
	}
}

func (r *Repository) statusDoc(c *status) doc {
	return doc{
		"id": c.id, "node_id": fmt.Sprintf("SC_%d", c.id), "state": c.state, "context": c.context, "description": c.description,
		"target_url": c.to, "created_at": stamp(c.at), "updated_at": stamp(c.at),
		"url": r.s.api("repos/%s/statuses/%s", r.full(), c.sha),
	}
}

func annotationDoc(path, line, level, message string) doc {
	n, _ := strconv.Atoi(line)
	return doc{
		"path": path, "start_line": n, "end_line": n, "annotation_level": level, "message": message, "title": "", "raw_details": "",
		"blob_href": "",
	}
}
