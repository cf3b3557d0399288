package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// handler answers a request about a repository.
type handler func(*Repository, http.ResponseWriter, *http.Request)

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/graphql", s.graphql)
	mux.HandleFunc("GET /api/v3/user", func(w http.ResponseWriter, _ *http.Request) { write(w, 200, s.user(Login)) })
	mux.HandleFunc("GET /api/v3/app", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, doc{"id": s.options.App.ID, "slug": s.options.App.Slug, "name": s.options.App.Slug})
	})
	mux.HandleFunc("POST /api/v3/app/installations/{id}/access_tokens", s.createToken)
	mux.HandleFunc("GET /api/v3/repos/{owner}/{repo}/installation", s.getInstallation)
	mux.HandleFunc("/api/v3/repositories/{id}/{rest...}", s.byID)
	for pattern, h := range map[string]handler{
		"GET /":                                    (*Repository).get,
		"GET /pulls":                               (*Repository).listPulls,
		"POST /pulls":                              (*Repository).createPull,
		"GET /pulls/{number}":                      (*Repository).getPull,
		"PATCH /pulls/{number}":                    (*Repository).editPull,
		"PUT /pulls/{number}/merge":                (*Repository).mergePull,
		"GET /pulls/{number}/reviews":              (*Repository).listReviews,
		"GET /pulls/{number}/comments":             (*Repository).listLines,
		"POST /pulls/{number}/comments":            (*Repository).createLine,
		"POST /pulls/{number}/requested_reviewers": (*Repository).requestReviewers,
		"GET /issues/{number}":                     (*Repository).getIssue,
		"GET /issues/{number}/comments":            (*Repository).listComments,
		"POST /issues/{number}/comments":           (*Repository).createComment,
		"POST /issues/{number}/labels":             (*Repository).addLabels,
		"GET /commits/{sha}/check-runs":            (*Repository).listChecks,
		"GET /commits/{sha}/status":                (*Repository).combinedStatus,
		"GET /check-runs/{id}":                     (*Repository).getCheck,
		"GET /check-runs/{id}/annotations":         (*Repository).listAnnotations,
		"POST /check-suites/{id}/rerequest":        (*Repository).rerequest,
		"GET /actions/runs":                        (*Repository).listRuns,
		"GET /actions/runs/{id}/jobs":              (*Repository).listJobs,
		"GET /actions/jobs/{id}":                   (*Repository).getJob,
		"GET /actions/jobs/{id}/logs":              (*Repository).getLog,
		"POST /actions/jobs/{id}/rerun":            (*Repository).rerun,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /api/v3/repos/{owner}/{repo}"+strings.TrimSuffix(path, "/"), s.about(pattern, h))
	}
	return mux
}

// about finds the repository of a request, and refuses what the account or the repository does not permit.
func (s *Server) about(pattern string, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("owner") + "/" + r.PathValue("repo")
		repo := s.repo(name)
		if repo == nil {
			failure{http.StatusNotFound, "Not Found", nil}.write(w)
			return
		}
		if !strings.EqualFold(repo.full(), name) {
			rest := strings.TrimPrefix(r.URL.RequestURI(), "/api/v3/repos/"+name)
			s.redirect(w, r, s.api("repositories/%d", repo.id)+rest)
			return
		}
		if f, ok := repo.refused[pattern]; ok {
			w.Header().Set("X-Accepted-GitHub-Permissions", f.errors[0])
			failure{f.status, f.message, nil}.write(w)
			return
		}
		if repo.archived && r.Method != http.MethodGet {
			failure{http.StatusForbidden, "Repository was archived so is read-only.", nil}.write(w)
			return
		}
		h(repo, w, r)
	}
}

func (s *Server) redirect(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Location", to)
	status := http.StatusTemporaryRedirect
	if r.Method == http.MethodGet {
		status = http.StatusMovedPermanently
	}
	write(w, status, doc{"message": "Moved Permanently", "url": to, "documentation_url": "https://docs.github.com/rest"})
}

// byID serves a repository by its id.
func (s *Server) byID(w http.ResponseWriter, r *http.Request) {
	for _, repo := range s.repos {
		if strconv.FormatInt(repo.id, 10) == r.PathValue("id") {
			r.URL.Path = strings.TrimSuffix("/api/v3/repos/"+repo.full()+"/"+r.PathValue("rest"), "/")
			s.rest.ServeHTTP(w, r)
			return
		}
	}
	failure{http.StatusNotFound, "Not Found", nil}.write(w)
}

// decode reads a body, and answers 400 if it is none.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	if json.NewDecoder(r.Body).Decode(into) != nil {
		failure{http.StatusBadRequest, "Problems parsing JSON", nil}.write(w)
		return false
	}
	return true
}

// ofPull finds the pull request of a path, and answers 404 if there is none.
func (r *Repository) ofPull(w http.ResponseWriter, req *http.Request) *pull {
	number, _ := strconv.Atoi(req.PathValue("number"))
	p := r.pull(number)
	if p == nil {
		failure{http.StatusNotFound, "Not Found", nil}.write(w)
	}
	return p
}

func (r *Repository) get(w http.ResponseWriter, _ *http.Request) { write(w, 200, r.doc()) }

func (r *Repository) listPulls(w http.ResponseWriter, req *http.Request) {
	q, docs := req.URL.Query(), []doc{}
	owner, branch, ok := strings.Cut(q.Get("head"), ":")
	for _, p := range slices.Backward(r.pulls) {
		// GitHub ignores a filter that it does not understand.
		if (!ok || owner == r.owner && branch == p.Branch) && (q.Get("state") == "all" || p.State == "open") {
			if base := q.Get("base"); base == "" || base == p.Base {
				docs = append(docs, r.pullDoc(p))
			}
		}
	}
	writePage(w, req, docs, list[doc])
}

func (r *Repository) createPull(w http.ResponseWriter, req *http.Request) {
	var in struct {
		Title, Head, Base, Body string
		Draft                   bool
	}
	if !decode(w, req, &in) {
		return
	}
	var why string
	base, head := r.sha(in.Base), r.sha(in.Head)
	ahead, _ := r.git("rev-list", "--count", base+".."+head)
	switch {
	case base == "":
		why = "base is invalid"
	case head == "":
		why = "head is invalid"
	case ahead == "0":
		why = fmt.Sprintf("No commits between %s and %s", in.Base, in.Head)
	case in.Draft && r.noDrafts:
		failure{http.StatusUnprocessableEntity, "Draft pull requests are not supported in this repository.", nil}.write(w)
		return
	}
	for _, p := range r.pulls {
		if p.State == "open" && p.Branch == in.Head && p.Base == in.Base {
			why = fmt.Sprintf("A pull request already exists for %s:%s.", r.owner, in.Head)
		}
	}
	if why != "" {
		failure{http.StatusUnprocessableEntity, "Validation Failed", []string{why}}.write(w)
		return
	}
	write(w, http.StatusCreated, r.wholePullDoc(r.open(in.Head, in.Base, in.Title, in.Body, in.Draft)))
}

func (r *Repository) getPull(w http.ResponseWriter, req *http.Request) {
	if p := r.ofPull(w, req); p != nil {
		write(w, 200, r.wholePullDoc(p))
	}
}

func (r *Repository) editPull(w http.ResponseWriter, req *http.Request) {
	var in struct{ Body, State *string }
	p := r.ofPull(w, req)
	if p == nil || !decode(w, req, &in) {
		return
	}
	if in.Body != nil {
		p.Body = *in.Body
	}
	if in.State != nil && *in.State == "open" && p.State == "closed" {
		if p.Merged || r.sha(p.Branch) == "" {
			why := "state cannot be changed. The " + p.Branch + " branch has been deleted."
			failure{http.StatusUnprocessableEntity, "Validation Failed", []string{why}}.write(w)
			return
		}
		p.State, p.head = "open", r.sha(p.Branch)
	}
	write(w, 200, r.wholePullDoc(p))
}

func (r *Repository) mergePull(w http.ResponseWriter, req *http.Request) {
	var in struct {
		SHA    string
		Method string `json:"merge_method"`
	}
	p := r.ofPull(w, req)
	if p == nil || !decode(w, req, &in) {
		return
	}
	if in.Method == "" {
		in.Method = "merge"
	}
	if f := r.mergeNow(p, r.s.login(), in.SHA, in.Method); f != nil {
		f.write(w)
		return
	}
	write(w, 200, doc{"sha": p.MergedAs, "merged": true, "message": "Pull Request successfully merged"})
}

func (r *Repository) listReviews(w http.ResponseWriter, req *http.Request) {
	if p := r.ofPull(w, req); p != nil {
		writePage(w, req, p.reviews, func(page []*review) any {
			return docsOf(page, func(v *review) doc { return r.reviewDoc(p, v) })
		})
	}
}

func (r *Repository) listLines(w http.ResponseWriter, req *http.Request) {
	if p := r.ofPull(w, req); p != nil {
		writePage(w, req, p.lines, func(page []*comment) any {
			return docsOf(page, func(c *comment) doc { return r.lineDoc(p, c) })
		})
	}
}

func (r *Repository) listComments(w http.ResponseWriter, req *http.Request) {
	if p := r.ofPull(w, req); p != nil {
		writePage(w, req, p.comments, func(page []*comment) any {
			return docsOf(page, func(c *comment) doc { return r.commentDoc(p, c) })
		})
	}
}

func docsOf[T any](items []T, of func(T) doc) []doc {
	out := make([]doc, len(items))
	for i, item := range items {
		out[i] = of(item)
	}
	return out
}

func (r *Repository) createLine(w http.ResponseWriter, req *http.Request) {
	var in struct {
		Body      string
		InReplyTo int64 `json:"in_reply_to"`
	}
	p := r.ofPull(w, req)
	if p == nil || !decode(w, req, &in) {
		return
	}
	for _, root := range p.lines {
		if root.id == in.InReplyTo && root.replyTo == 0 {
			c := r.lineComment(p, &comment{
				login: r.s.login(), association: "COLLABORATOR", body: in.Body, path: root.path, line: root.line, hunk: root.hunk,
				replyTo: root.id,
			})
			write(w, http.StatusCreated, r.lineDoc(p, c))
			return
		}
	}
	failure{http.StatusUnprocessableEntity, "Validation Failed", []string{"in_reply_to is invalid"}}.write(w)
}

func (r *Repository) requestReviewers(w http.ResponseWriter, req *http.Request) {
	var in struct {
		Reviewers []string
		Teams     []string `json:"team_reviewers"`
	}
	p := r.ofPull(w, req)
	if p == nil || !decode(w, req, &in) {
		return
	}
	for _, name := range append(in.Reviewers, in.Teams...) {
		if strings.HasPrefix(name, "nobody") {
			failure{
				http.StatusUnprocessableEntity,
				"Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a " +
					"collaborator of the " + r.full() + " repository.", nil,
			}.write(w)
			return
		}
	}
	p.Reviewers, p.TeamReviewers = append(p.Reviewers, in.Reviewers...), append(p.TeamReviewers, in.Teams...)
	write(w, http.StatusCreated, r.pullDoc(p))
}

func (r *Repository) getIssue(w http.ResponseWriter, req *http.Request) {
	if p := r.ofPull(w, req); p != nil {
		write(w, 200, r.issueDoc(p))
	}
}

func (r *Repository) createComment(w http.ResponseWriter, req *http.Request) {
	var in struct{ Body string }
	p := r.ofPull(w, req)
	if p != nil && decode(w, req, &in) {
		write(w, http.StatusCreated, r.commentDoc(p, r.comment(p, r.s.login(), "COLLABORATOR", in.Body)))
	}
}

func (r *Repository) addLabels(w http.ResponseWriter, req *http.Request) {
	var in struct{ Labels []string }
	p, body := r.ofPull(w, req), json.RawMessage{}
	if p == nil || !decode(w, req, &body) {
		return
	}
	if json.Unmarshal(body, &in.Labels) != nil {
		_ = json.Unmarshal(body, &in)
	}
	out := []doc{}
	for _, name := range in.Labels {
		if !slices.Contains(p.Labels, name) {
			p.Labels = append(p.Labels, name)
		}
		out = append(out, doc{"name": name})
	}
	write(w, 200, out)
}
