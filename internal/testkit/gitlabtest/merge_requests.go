package gitlabtest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The states of merge requests.
const (
	opened = "opened"
	closed = "closed"
	merged = "merged"
)

type mergeRequest struct {
	project *project
	id      int64
	number  int
	// fork: its branch is one of a fork.
	fork                                      bool
	source, target, title, description, state string
	labels                                    []string
	reviewers                                 map[*user]string
	approvals                                 []*user
	discussions                               []*discussion
	closedBy                                  *user
	mergeSHA, squashSHA, sha                  string
	status                                    string // instead of what it would be
	frozen, squash, autoMerge                 bool
}

// MergeRequest is a merge request as a test sees it.
type MergeRequest struct {
	Number                    int
	Title, Description, State string
	Draft                     bool
	Labels, Reviewers         []string
	Notes                     []Note
}

// Note is a comment.
type Note struct {
	ID       int64
	Thread   string
	By, Body string
	Resolved bool
}

func (p *project) mergeRequest(number int) *mergeRequest {
	if number < 1 || number > len(p.mergeRequests) {
		return nil
	}
	return p.mergeRequests[number-1]
}

// at does something to a merge request under the server's lock.
func (s *Server) at(name string, number int, do func(p *project, mr *mergeRequest)) {
	s.change(name, func(p *project) {
		mr := p.mergeRequest(number)
		if mr == nil {
			panic(fmt.Sprintf("gitlabtest: there is no merge request %d", number))
		}
		s.refresh(mr)
		do(p, mr)
	})
}

// MergeRequests lists the merge requests of a project, with the comments of people.
func (s *Server) MergeRequests(name string) (all []MergeRequest) {
	s.change(name, func(p *project) {
		for _, mr := range p.mergeRequests {
			m := MergeRequest{
				Number: mr.number, Title: mr.title, Description: mr.description, State: mr.state, Draft: mr.draft(),
				Labels: mr.labels,
			}
			for u := range mr.reviewers {
				m.Reviewers = append(m.Reviewers, u.name)
			}
			slices.Sort(m.Reviewers)
			for _, d := range mr.discussions {
				for _, n := range d.notes {
					if !n.system {
						m.Notes = append(m.Notes, Note{ID: n.id, Thread: d.id, By: n.by.name, Body: n.body, Resolved: n.resolved})
					}
				}
			}
			all = append(all, m)
		}
	})
	return all
}

// Open opens a merge request, and returns its number. fork: its branch is that of a fork.
func (s *Server) Open(name, source, title string, fork bool) (number int) {
	s.change(name, func(p *project) {
		number = s.open(p, &mergeRequest{source: source, target: p.DefaultBranch, title: title, fork: fork})
	})
	return number
}

func (s *Server) open(p *project, mr *mergeRequest) int {
	mr.project, mr.id, mr.number, mr.state = p, s.id(), len(p.mergeRequests)+1, opened
	if mr.reviewers == nil {
		mr.reviewers = map[*user]string{}
	}
	p.mergeRequests = append(p.mergeRequests, mr)
	s.refresh(mr)
	s.execute(mr, mr.description)
	return mr.number
}

// refresh lets a merge request learn of pushes.
func (s *Server) refresh(mr *mergeRequest) {
	if mr.state != opened || mr.frozen || mr.fork {
		return
	}
	if head := headOf(mr.project.Dir, mr.source); head != "" {
		mr.sha = head
	}
}

// Freeze makes a merge request learn of no further push, as after a push until GitLab has worked through it.
func (s *Server) Freeze(name string, number int, frozen bool) {
	s.at(name, number, func(_ *project, mr *mergeRequest) { mr.frozen = frozen })
}

// SetMergeStatus sets the detailed merge status, instead of the one that it would be; empty: that one again.
func (s *Server) SetMergeStatus(name string, number int, status string) {
	s.at(name, number, func(_ *project, mr *mergeRequest) { mr.status = status })
}

// Approve approves a merge request.
func (s *Server) Approve(name string, number int, by string) {
	s.at(name, number, func(_ *project, mr *mergeRequest) {
		u := s.user(by)
		mr.approvals = append(slices.DeleteFunc(mr.approvals, func(o *user) bool { return o == u }), u)
		if _, asked := mr.reviewers[u]; asked {
			mr.reviewers[u] = "approved"
		}
		s.told(mr, u, "approved this merge request")
	})
}

// Unapprove takes an approval back.
func (s *Server) Unapprove(name string, number int, by string) {
	s.at(name, number, func(_ *project, mr *mergeRequest) {
		u := s.user(by)
		mr.approvals = slices.DeleteFunc(mr.approvals, func(o *user) bool { return o == u })
		s.told(mr, u, "unapproved this merge request")
	})
}

// RequestChanges ends a review with a request for changes.
func (s *Server) RequestChanges(name string, number int, by string) {
	s.at(name, number, func(_ *project, mr *mergeRequest) {
		u := s.user(by)
		mr.approvals = slices.DeleteFunc(mr.approvals, func(o *user) bool { return o == u })
		mr.reviewers[u] = "requested_changes"
		s.told(mr, u, "requested changes")
	})
}

// SetTitle changes the title.
func (s *Server) SetTitle(name string, number int, title string) {
	s.at(name, number, func(_ *project, mr *mergeRequest) {
		mr.title = title
	})
}

// CloseMergeRequest closes a merge request without a merge.
func (s *Server) CloseMergeRequest(name string, number int, by string) {
	s.at(name, number, func(_ *project, mr *mergeRequest) { s.closeBy(mr, s.user(by)) })
}

func (s *Server) closeBy(mr *mergeRequest, by *user) {
	mr.state, mr.closedBy = closed, by
	s.told(mr, by, "closed")
}

// Reopen opens a closed merge request again, by a person.
func (s *Server) Reopen(name string, number int, _ string) {
	s.at(name, number, func(_ *project, mr *mergeRequest) {
		mr.state, mr.closedBy = opened, nil
	})
}

// MergeMergeRequest merges a merge request, whatever blocks it.
func (s *Server) MergeMergeRequest(name string, number int, by string) {
	s.at(name, number, func(_ *project, mr *mergeRequest) { s.merge(mr, s.user(by), mr.squash) })
}

// RunTrain merges what is on the merge train.
func (s *Server) RunTrain(name string) {
	s.change(name, func(p *project) {
		for _, mr := range p.mergeRequests {
			if mr.autoMerge && mr.state == opened {
				s.merge(mr, s.user(Self), mr.squash)
			}
		}
	})
}

func (s *Server) merge(mr *mergeRequest, by *user, squash bool) {
	p := mr.project
	made := merge(p.Dir, mr.target, mr.sha, squash, p.FastForward)
	if squash {
		mr.squashSHA = made
	}
	if !p.FastForward {
		mr.mergeSHA = made
	}
	mr.state, mr.autoMerge = merged, false
	s.told(mr, by, "merged")
}

var draftTitle = regexp.MustCompile(`(?i)^\s*(draft:|\[draft\]|\(draft\))`)

func (mr *mergeRequest) draft() bool { return draftTitle.MatchString(mr.title) }

func (mr *mergeRequest) discussion(id string) *discussion {
	for _, d := range mr.discussions {
		if d.id == id {
			return d
		}
	}
	return nil
}

// refs are the commits of the newest version.
func (mr *mergeRequest) refs(p *project) map[string]any {
	base := headOf(p.Dir, mr.target)
	fork, ok := git(p.Dir, "", "merge-base", base, mr.sha)
	if !ok {
		fork = base
	}
	return map[string]any{"base_sha": fork, "start_sha": base, "head_sha": mr.sha}
}

// mergeStatus is the detailed merge status.
func (mr *mergeRequest) mergeStatus() string {
	p := mr.project
	pipeline := mr.headPipeline()
	unresolved := slices.ContainsFunc(mr.discussions, func(d *discussion) bool { return !d.individual && !d.notes[0].resolved })
	base := headOf(p.Dir, mr.target)
	switch {
	case mr.state != opened:
		return "not_open"
	case mr.status != "":
		return mr.status
	case headOf(p.Dir, mr.source) == "":
		return "commits_status"
	case mr.draft():
		return "draft_status"
	case p.PipelinesMustSucceed && (pipeline == nil || pipeline.state() == "failed" || pipeline.state() == "manual"):
		return "ci_must_pass"
	case p.PipelinesMustSucceed && pipeline.state() != "success":
		return "ci_still_running"
	case p.ThreadsMustBeResolved && unresolved:
		return "discussions_not_resolved"
	case slices.Contains(slices.Collect(maps.Values(mr.reviewers)), "requested_changes"):
		return "requested_changes"
	case len(mr.approvals) < p.Approvals:
		return "not_approved"
	case p.FastForward && !isAncestor(p.Dir, base, mr.sha):
		return "need_rebase"
	case mergedTree(p.Dir, base, mr.sha) == "":
		return "conflict"
	}
	return "mergeable"
}

func (s *Server) json(mr *mergeRequest) map[string]any {
	p := mr.project
	from := p.id
	if mr.fork {
		from = 1
	}
	reviewers := []any{}
	for u := range mr.reviewers {
		reviewers = append(reviewers, u.json())
	}
	status := mr.mergeStatus()
	m := map[string]any{
		"iid": mr.number, "source_project_id": from, "target_project_id": p.id, "title": mr.title, "description": mr.description,
		"state": mr.state, "draft": mr.draft(), "source_branch": mr.source, "target_branch": mr.target, "sha": mr.sha,
		"merge_commit_sha": null(mr.mergeSHA), "squash_commit_sha": null(mr.squashSHA), "detailed_merge_status": status,
		"has_conflicts": status == "conflict", "merge_when_pipeline_succeeds": mr.autoMerge, "closed_by": mr.closedBy.json(),
		"web_url": fmt.Sprintf("%s/%s/-/merge_requests/%d", s.URL(), p.Name, mr.number), "diff_refs": mr.refs(p),
		"head_pipeline": nil, "reviewers": reviewers,
	}
	if pipeline := mr.headPipeline(); pipeline != nil {
		m["head_pipeline"] = s.pipelineJSON(p, pipeline)
	}
	return m
}

// null is null for an empty text.
func null(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// action is a line that GitLab executes.
var action = regexp.MustCompile(`(?mi)^/(close|merge|approve|title|draft|ready|assign|label|target_branch)( [^\n]*)?\s*$`)

// execute executes the quick actions of a text, with the rights of the account.
func (s *Server) execute(mr *mergeRequest, text string) {
	for _, m := range action.FindAllStringSubmatch(strings.ReplaceAll(text, "\r", ""), -1) {
		switch strings.ToLower(m[1]) {
		case "close":
			s.closeBy(mr, s.user(Self))
		case "merge":
			s.merge(mr, s.user(Self), false)
		case "approve":
			mr.approvals = append(mr.approvals, s.user(Self))
		default:
			mr.title = "changed by a quick action"
		}
	}
}

func (s *Server) listMergeRequests(c *call) (int, any) {
	var all []map[string]any
	for _, mr := range slices.Backward(c.project.mergeRequests) {
		branch, state, base := c.text("source_branch"), c.text("state"), c.text("target_branch")
		if (base == "" || base == mr.target) && (branch == "" || branch == mr.source) &&
			(state == "" || state == "all" || state == mr.state) {
			all = append(all, s.json(mr))
		}
	}
	return page(c, all)
}

func (s *Server) createMergeRequest(c *call) (int, any) {
	p := c.project
	mr := &mergeRequest{
		source: c.text("source_branch"), target: c.text("target_branch"), title: c.text("title"), description: c.text("description"),
		reviewers: map[*user]string{},
	}
	for _, branch := range []string{mr.source, mr.target} {
		if headOf(p.Dir, branch) == "" {
			return refuse(http.StatusBadRequest, map[string]any{"base": []string{fmt.Sprintf("Branch %q does not exist", branch)}})
		}
	}
	for _, other := range p.mergeRequests {
		if other.state == opened && other.source == mr.source && other.target == mr.target && !other.fork {
			return refuse(http.StatusConflict,
				[]string{"Another open merge request already exists for this source branch: !" + strconv.Itoa(other.number)})
		}
	}
	if labels := c.text("labels"); labels != "" {
		mr.labels = strings.Split(labels, ",")
	}
	s.open(p, mr)
	return http.StatusCreated, s.json(mr)
}

// setReviewers sets all reviewers. Those that there were keep their state.
func (s *Server) setReviewers(mr *mergeRequest, ids []any) {
	are := map[*user]string{}
	for _, id := range ids {
		for _, u := range s.users {
			if n, ok := id.(float64); ok && int64(n) == u.id {
				are[u] = cmp.Or(mr.reviewers[u], "unreviewed")
			}
		}
	}
	mr.reviewers = are
}

func (s *Server) updateMergeRequest(c *call) (int, any) {
	if !c.has("title") && !c.has("description") && !c.has("reviewer_ids") && !c.has("state_event") {
		return refuse(http.StatusBadRequest, "title, description, reviewer_ids are missing, at least one parameter must be provided")
	}
	if c.text("state_event") == "reopen" && c.mr.state == closed {
		c.mr.state, c.mr.closedBy = opened, nil
	}
	if ids, ok := c.body["reviewer_ids"].([]any); ok {
		s.setReviewers(c.mr, ids)
	}
	if c.has("title") {
		c.mr.title = c.text("title")
	}
	if c.has("description") {
		c.mr.description = c.text("description")
		s.execute(c.mr, c.mr.description)
	}
	return http.StatusOK, s.json(c.mr)
}

func (s *Server) acceptMergeRequest(c *call) (int, any) {
	mr, sha := c.mr, c.text("sha")
	switch status := mr.mergeStatus(); {
	case c.project.NoMerge:
		return refuse(http.StatusUnauthorized, "401 Unauthorized")
	case mr.state != opened:
		return refuse(http.StatusMethodNotAllowed, "405 Method Not Allowed")
	case sha != "" && sha != headOf(c.project.Dir, mr.source):
		return refuse(http.StatusConflict, "SHA does not match HEAD of source branch: "+mr.sha)
	case status == "conflict":
		return refuse(http.StatusUnprocessableEntity, "Branch cannot be merged")
	case status != "mergeable":
		return refuse(http.StatusMethodNotAllowed, "405 Method Not Allowed")
	}
	s.merge(mr, s.user(Self), c.text("squash") == "true")
	return http.StatusOK, s.json(mr)
}

func (s *Server) addToTrain(c *call) (int, any) {
	switch sha := c.text("sha"); {
	case !c.project.Trains:
		return notFound("Project")
	case sha != "" && sha != c.mr.sha:
		return refuse(http.StatusConflict, "SHA does not match HEAD of source branch")
	case c.mr.mergeStatus() != "mergeable" || c.mr.autoMerge:
		return refuse(http.StatusBadRequest, "400 Bad request - Failed to merge")
	}
	c.mr.autoMerge, c.mr.squash = true, c.text("squash") == "true"
	return http.StatusCreated, []any{}
}
