package githubtest

import (
	"net/http"
	"strconv"
)

func (r *Repository) listChecks(w http.ResponseWriter, req *http.Request) {
	var of []*check
	for _, c := range r.checks {
		if c.sha == req.PathValue("sha") {
			of = append(of, c)
		}
	}
	writePage(w, req, of, func(page []*check) any {
		return doc{"total_count": len(of), "check_runs": docsOf(page, r.checkDoc)}
	})
}

func (r *Repository) combinedStatus(w http.ResponseWriter, req *http.Request) {
	var of []*status
	for _, c := range r.statuses {
		if c.sha == req.PathValue("sha") {
			of = append(of, c)
		}
	}
	writePage(w, req, of, func(page []*status) any {
		return doc{"total_count": len(of), "statuses": docsOf(page, r.statusDoc)}
	})
}

func (r *Repository) listRuns(w http.ResponseWriter, req *http.Request) {
	runs := []doc{}
	seen := map[int64]bool{}
	for _, c := range r.checks {
		if c.sha == req.URL.Query().Get("head_sha") && c.workflow != "" && !seen[c.run] {
			seen[c.run] = true
			runs = append(runs, r.runDoc(c))
		}
	}
	writePage(w, req, runs, func(page []doc) any { return doc{"total_count": len(runs), "workflow_runs": page} })
}

func (r *Repository) listJobs(w http.ResponseWriter, req *http.Request) {
	var of []*check
	for _, c := range r.checks {
		if strconv.FormatInt(c.run, 10) == req.PathValue("id") {
			of = append(of, c)
		}
	}
	writePage(w, req, of, func(page []*check) any { return doc{"total_count": len(of), "jobs": docsOf(page, r.jobDoc)} })
}

// ofCheck finds the check run of a path, and answers 404 if there is none.
func (r *Repository) ofCheck(w http.ResponseWriter, req *http.Request) *check {
	for _, c := range r.checks {
		if strconv.FormatInt(c.id, 10) == req.PathValue("id") {
			return c
		}
	}
	failure{http.StatusNotFound, "Not Found", nil}.write(w)
	return nil
}

func (r *Repository) getCheck(w http.ResponseWriter, req *http.Request) {
	if c := r.ofCheck(w, req); c != nil {
		write(w, 200, r.checkDoc(c))
	}
}

func (r *Repository) listAnnotations(w http.ResponseWriter, req *http.Request) {
	if c := r.ofCheck(w, req); c != nil {
		writePage(w, req, c.annotations, list[map[string]any])
	}
}

func (r *Repository) getJob(w http.ResponseWriter, req *http.Request) {
	if c := r.ofCheck(w, req); c != nil {
		write(w, 200, r.jobDoc(c))
	}
}

func (r *Repository) getLog(w http.ResponseWriter, req *http.Request) {
	c := r.ofCheck(w, req)
	switch {
	case c == nil:
	case c.log == "":
		failure{http.StatusGone, "Server Error: the log has expired", nil}.write(w)
	default:
		w.Header().Set("Location", r.s.URL+"/_logs/"+strconv.FormatInt(c.id, 10)+"?sig=secret-signature")
		w.WriteHeader(http.StatusFound)
	}
}

func (r *Repository) rerun(w http.ResponseWriter, req *http.Request) {
	c := r.ofCheck(w, req)
	switch {
	case c == nil:
	case c.conclusion == "":
		failure{http.StatusForbidden, "The workflow run containing this job is already running", nil}.write(w)
	default:
		r.again(c)
		write(w, http.StatusCreated, doc{})
	}
}

// again starts a check anew.
func (r *Repository) again(c *check) {
	c.conclusion, c.id, c.attempt = "", r.s.id(), c.attempt+1
}

func (r *Repository) rerequest(w http.ResponseWriter, req *http.Request) {
	found := false
	for _, c := range r.checks {
		if strconv.FormatInt(c.suite, 10) == req.PathValue("id") {
			found = true
			r.again(c)
		}
	}
	if !found {
		failure{http.StatusNotFound, "Not Found", nil}.write(w)
		return
	}
	write(w, http.StatusCreated, doc{})
}
