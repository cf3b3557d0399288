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
	return doc{"login": login, "id": id, "type": kind}
}

func (r *Repository) doc() doc {
	return doc{
		"id": r.id, "name": r.name, "full_name": r.full(), "owner": r.s.user(r.owner), "archived": r.archived, "disabled": false,
		"default_branch": "main",
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

// pullDoc is a pull request as lists have it.
func (r *Repository) pullDoc(p *pull) doc {
	return doc{
		"id": p.id, "node_id": p.nodeID(), "number": p.Number, "state": p.State, "title": p.Title, "body": p.Body, "draft": p.Draft,
		"html_url": r.page(p), "head": r.branchDoc(p.Branch, p.head), "base": r.branchDoc(p.Base, r.sha(p.Base)),
		"merge_commit_sha": p.MergedAs,
	}
}

// wholePullDoc is a pull request as GitHub answers a request for one.
func (r *Repository) wholePullDoc(p *pull) doc {
	d := r.pullDoc(p)
	d["merged"], d["mergeable"], d["mergeable_state"] = p.Merged, nil, "unknown"
	if p.State == "open" {
		state, _ := r.blocked(p)
		d["mergeable_state"] = state
		if state != "unknown" {
			d["mergeable"] = state != "dirty"
		}
	}
	return d
}

func (r *Repository) issueDoc(p *pull) doc {
	return doc{"id": p.id, "number": p.Number, "state": p.State, "closed_by": r.s.user(p.endedBy)}
}

func (r *Repository) commentDoc(p *pull, c *comment) doc {
	return doc{
		"id": c.id, "body": c.body, "user": r.s.user(c.login), "created_at": stamp(c.at), "author_association": c.association,
		"html_url": fmt.Sprintf("%s#issuecomment-%d", r.page(p), c.id),
	}
}

func (r *Repository) lineDoc(p *pull, c *comment) doc {
	d := r.commentDoc(p, c)
	d["path"], d["diff_hunk"] = c.path, c.hunk
	d["html_url"] = fmt.Sprintf("%s#discussion_r%d", r.page(p), c.id)
	if c.line > 0 {
		d["line"] = c.line
	}
	if c.replyTo != 0 {
		d["in_reply_to_id"] = c.replyTo
	}
	return d
}

func (r *Repository) reviewDoc(p *pull, v *review) doc {
	return doc{
		"id": v.id, "user": r.s.user(v.login), "body": v.body, "state": v.verdict,
		"submitted_at": stamp(v.at), "author_association": v.association,
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
		"id": c.id, "name": c.name, "status": state, "conclusion": conclusion, "check_suite": doc{"id": c.suite},
		"html_url": fmt.Sprintf("%s/%s/runs/%d", r.s.URL, r.full(), c.id), "app": doc{"id": len(c.app), "slug": c.app},
		"output": doc{"title": nil, "summary": nil, "text": nil},
	}
	if c.app != "github-actions" {
		d["output"] = doc{"title": c.name, "summary": c.log, "text": nil}
	}
	return d
}

func (r *Repository) runDoc(c *check) doc {
	state, conclusion := c.conclude()
	id := int64(1)
	for _, b := range c.workflow {
		id = id*31%1_000_003 + int64(b)
	}
	return doc{
		"id": c.run, "name": c.workflow, "event": "pull_request", "status": state, "conclusion": conclusion, "workflow_id": id,
		"check_suite_id": c.suite, "run_attempt": c.attempt,
		"html_url": fmt.Sprintf("%s/%s/actions/runs/%d", r.s.URL, r.full(), c.run),
	}
}

func (r *Repository) jobDoc(c *check) doc {
	state, conclusion := c.conclude()
	return doc{
		"id": c.id, "run_id": c.run, "name": c.name, "status": state, "conclusion": conclusion, "run_attempt": c.attempt,
		"html_url": fmt.Sprintf("%s/%s/runs/%d", r.s.URL, r.full(), c.id),
		"steps": []doc{
			{"name": "Set up job", "status": "completed", "conclusion": "success", "number": 1},
			{"name": "Run " + c.name, "status": state, "conclusion": conclusion, "number": 2},
			{"name": "Complete job", "status": "completed", "conclusion": "success", "number": 3},
		},
	}
}

func (r *Repository) statusDoc(c *status) doc {
	return doc{"id": c.id, "state": c.state, "context": c.context, "description": c.description, "target_url": c.to}
}

func annotationDoc(path, line, level, message string) doc {
	n, _ := strconv.Atoi(line)
	return doc{"path": path, "start_line": n, "annotation_level": level, "message": message}
}
