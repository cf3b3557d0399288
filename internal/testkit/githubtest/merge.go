package githubtest

import (
	"net/http"
	"slices"
	"strings"
)

// mergeable is whether two commits can be merged: the tree of the merge, if there is no conflict.
type mergeable struct {
	tree  string
	asked bool
}

// mergeable merges a pull request's commits, without a trace.
func (r *Repository) mergeable(p *pull) (tree string, known bool) {
	base := r.sha(p.Base)
	key := base + " " + p.head
	m, ok := r.s.computed[key]
	if !ok {
		if out, err := r.git("merge-tree", "--write-tree", "--no-messages", base, p.head); err == nil {
			m.tree = out
		}
		r.s.computed[key] = m
	}
	if r.s.options.MergeableLate && !m.asked {
		m.asked = true
		r.s.computed[key] = m
		return "", false
	}
	return m.tree, true
}

// blocked says why a pull request cannot be merged; empty: it can.
func (r *Repository) blocked(p *pull) (state, why string) {
	tree, known := r.mergeable(p)
	switch {
	case !known:
		return "unknown", "Pull Request is not mergeable"
	case tree == "":
		return "dirty", "Pull Request is not mergeable"
	case p.Draft:
		return "draft", "Pull Request is still a draft"
	}
	for _, name := range r.protect.Checks {
		if r.result(p.head, name) != "success" {
			return "blocked", `Required status check "` + name + `" is expected.`
		}
	}
	if r.decision(p) != "" && r.decision(p) != "APPROVED" {
		return "blocked", "At least 1 approving review is required by reviewers with write access."
	}
	if r.protect.UpToDate {
		if _, err := r.git("merge-base", "--is-ancestor", r.sha(p.Base), p.head); err != nil {
			return "behind", "Head branch is not up to date with the base branch."
		}
	}
	for _, c := range r.checks {
		if c.sha == p.head && c.conclusion != "success" && c.conclusion != "skipped" && c.conclusion != "neutral" {
			return "unstable", ""
		}
	}
	return "clean", ""
}

// result is the result of a check or status of a commit.
func (r *Repository) result(sha, name string) string {
	for _, c := range r.checks {
		if c.sha == sha && c.name == name {
			return c.conclusion
		}
	}
	for _, c := range r.statuses {
		if c.sha == sha && c.context == name {
			return c.state
		}
	}
	return "expected"
}

// decision is the decision of the reviews; empty: none are required.
func (r *Repository) decision(p *pull) string {
	if r.protect.Reviews == 0 {
		return ""
	}
	newest := map[string]string{}
	for _, v := range p.reviews {
		if v.verdict != "COMMENTED" {
			newest[v.login] = v.verdict
		}
	}
	approvals := 0
	for _, verdict := range newest {
		switch verdict {
		case "CHANGES_REQUESTED":
			return verdict
		case "APPROVED":
			approvals++
		}
	}
	if approvals < r.protect.Reviews {
		return "REVIEW_REQUIRED"
	}
	return "APPROVED"
}

// mergeNow is what a merge by the API does.
func (r *Repository) mergeNow(p *pull, login, sha, method string) *failure {
	state, why := r.blocked(p)
	switch {
	case r.archived:
		return &failure{http.StatusForbidden, "Repository was archived so is read-only.", nil}
	case p.State != "open":
		return &failure{http.StatusMethodNotAllowed, "Pull Request is not mergeable", nil}
	case sha != "" && sha != p.head:
		return &failure{http.StatusConflict, "Head branch was modified. Review and try the merge again.", nil}
	case !slices.Contains(r.methods, method):
		return &failure{
			http.StatusMethodNotAllowed, strings.ToUpper(method[:1]) + method[1:] + " merges are not allowed on this repository.", nil,
		}
	case r.protect.Queue:
		return &failure{http.StatusMethodNotAllowed, "Changes must be made through the merge queue", nil}
	case state == "unknown", state == "dirty", state == "draft", state == "blocked", state == "behind":
		return &failure{http.StatusMethodNotAllowed, why, nil}
	}
	return r.merge(p, login, method)
}

// merge merges in the bare repository. A rebase is a squash here.
func (r *Repository) merge(p *pull, login, method string) *failure {
	base := r.sha(p.Base)
	tree, err := r.git("merge-tree", "--write-tree", "--no-messages", base, p.head)
	if err != nil {
		return &failure{http.StatusMethodNotAllowed, "Pull Request is not mergeable", nil}
	}
	args := []string{"commit-tree", tree, "-m", p.Title, "-p", base}
	if method == "merge" {
		args = append(args, "-p", p.head)
	}
	commit, err := r.git(args...)
	if err == nil {
		_, err = r.git("update-ref", "refs/heads/"+p.Base, commit, base)
	}
	if err != nil {
		return &failure{http.StatusInternalServerError, err.Error(), nil}
	}
	p.Merged, p.MergedAs = true, commit
	r.end(p, login)
	return nil
}
