package githubtest

import (
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Repository is a repository of a server. Its methods do what people, CI and GitHub do there.
type Repository struct {
	s           *Server
	id          int64
	owner, name string
	// stored is the name that git knows it by, and before are the names that it had.
	stored   string
	before   []string
	archived bool
	noDrafts bool
	refused  map[string]failure
	methods  []string
	protect  Protection
	pulls    []*pull
	checks   []*check
	statuses []*status
}

// Protection is what a repository requires for a merge into its default branch.
type Protection struct {
	// Checks have to pass. Reviews is how many approvals there have to be.
	Checks  []string
	Reviews int
	// UpToDate: the branch has to contain the base. Queue: there is a merge queue.
	UpToDate, Queue bool
}

// Pull is a pull request as a test sees it.
type Pull struct {
	Number                                  int
	Branch, Base, Title, Body, State        string
	Draft, Merged, Queued                   bool
	MergedAs                                string
	Labels, Reviewers, TeamReviewers        []string
	Comments, LineComments, ResolvedThreads []string
}

type pull struct {
	Pull
	id       int64
	head     string
	endedBy  string
	reviews  []*review
	comments []*comment
	lines    []*comment
	resolved map[int64]bool
}

type review struct {
	id                                int64
	login, association, verdict, body string
	at                                time.Time
}

type comment struct {
	id                       int64
	login, association, body string
	at                       time.Time
	path, hunk               string
	line                     int
	replyTo                  int64
}

type check struct {
	id, suite, run                       int64
	sha, name, workflow, app, conclusion string
	log                                  string
	attempt                              int
	annotations                          []map[string]any
}

type status struct {
	id                                   int64
	sha, context, state, description, to string
}

// Create adds a repository, whose files are in the directory that [Options.Dir] names.
func (s *Server) Create(repository string) *Repository {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, name, _ := strings.Cut(repository, "/")
	r := &Repository{
		s: s, id: s.id(), owner: owner, name: name, stored: repository, refused: map[string]failure{},
		methods: []string{"merge", "squash", "rebase"},
	}
	s.repos = append(s.repos, r)
	return r
}

// repo finds a repository by its name, or by one that it had.
func (s *Server) repo(name string) *Repository {
	for _, r := range s.repos {
		if strings.EqualFold(r.full(), name) {
			return r
		}
	}
	for _, r := range s.repos {
		if slices.Contains(r.before, strings.ToLower(name)) {
			return r
		}
	}
	return nil
}

func (r *Repository) full() string { return r.owner + "/" + r.name }

// do changes the repository with the server locked.
func (r *Repository) do(change func()) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.settle()
	change()
}

func (r *Repository) pull(number int) *pull {
	for _, p := range r.pulls {
		if p.Number == number {
			return p
		}
	}
	return nil
}

// Rename gives the repository another name. Requests with the old one are redirected.
func (r *Repository) Rename(repository string) {
	r.do(func() {
		r.before = append(r.before, strings.ToLower(r.full()))
		r.owner, r.name, _ = strings.Cut(repository, "/")
	})
}

// Archive makes the repository read-only.
func (r *Repository) Archive() { r.do(func() { r.archived = true }) }

// PermitNoDrafts makes GitHub refuse drafts, as it does in private repositories of some plans.
func (r *Repository) PermitNoDrafts() { r.do(func() { r.noDrafts = true }) }

// PermitMethods are the only methods of merging from now on.
func (r *Repository) PermitMethods(methods ...string) { r.do(func() { r.methods = methods }) }

// Protect sets what a merge requires.
func (r *Repository) Protect(p Protection) { r.do(func() { r.protect = p }) }

// Deny makes GitHub refuse requests of a method, or operations of GraphQL with a name, for the want of a permission. An
// empty permission ends that.
func (r *Repository) Deny(method, permission string) {
	r.do(func() {
		delete(r.refused, method)
		if permission != "" {
			r.refused[method] = failure{403, "Resource not accessible by integration", []string{permission}}
		}
	})
}

// Pulls returns the pull requests, oldest first.
func (r *Repository) Pulls() (out []Pull) {
	r.do(func() {
		for _, p := range r.pulls {
			view := p.Pull
			for _, c := range p.comments {
				view.Comments = append(view.Comments, c.body)
			}
			for _, c := range p.lines {
				view.LineComments = append(view.LineComments, c.body)
				if p.resolved[c.id] {
					view.ResolvedThreads = append(view.ResolvedThreads, c.body)
				}
			}
			view.Labels, view.Reviewers = slices.Clone(p.Labels), slices.Clone(p.Reviewers)
			out = append(out, view)
		}
	})
	return out
}

// Open opens a pull request by a person.
func (r *Repository) Open(_, branch, base, title string) (number int) {
	r.do(func() { number = r.open(branch, base, title, "", false).Number })
	return number
}

func (r *Repository) open(branch, base, title, body string, draft bool) *pull {
	p := &pull{
		Pull: Pull{Number: len(r.pulls) + 1, Branch: branch, Base: base, Title: title, Body: body, State: "open", Draft: draft},
		id:   r.s.id(), head: r.sha(branch), resolved: map[int64]bool{},
	}
	r.pulls = append(r.pulls, p)
	return p
}

// Comment is a comment of a person on a pull request. It returns the comment's id.
func (r *Repository) Comment(number int, login, association, body string) (id int64) {
	r.do(func() { id = r.comment(r.pull(number), login, association, body).id })
	return id
}

// CommentMany adds many comments of a person.
func (r *Repository) CommentMany(number, count int, login, association string) {
	r.do(func() {
		for i := range count {
			r.comment(r.pull(number), login, association, fmt.Sprintf("No. %d", i))
		}
	})
}

func (r *Repository) comment(p *pull, login, association, body string) *comment {
	c := &comment{id: r.s.id(), login: login, association: association, body: body, at: r.s.tick()}
	p.comments = append(p.comments, c)
	return c
}

// LineComment is a comment on a line of a file; replyTo is the first comment of the thread that it belongs to, or 0.
func (r *Repository) LineComment(number int, login, association, path string, line int, body string, replyTo int64) (id int64) {
	r.do(func() {
		id = r.lineComment(r.pull(number), &comment{
			login: login, association: association, body: body, path: path, line: line, replyTo: replyTo,
			hunk: fmt.Sprintf("@@ -%d,1 +%d,1 @@\n+changed", line, line),
		}).id
	})
	return id
}

func (r *Repository) lineComment(p *pull, c *comment) *comment {
	c.id, c.at = r.s.id(), r.s.tick()
	p.lines = append(p.lines, c)
	return c
}

// Review is a review of a person: APPROVED, CHANGES_REQUESTED or COMMENTED. It returns the review's id.
func (r *Repository) Review(number int, login, association, verdict, body string) (id int64) {
	r.do(func() {
		p := r.pull(number)
		id = r.s.id()
		p.reviews = append(p.reviews, &review{
			id: id, login: login, association: association, verdict: verdict, body: body, at: r.s.tick(),
		})
	})
	return id
}

// Dismiss dismisses a review.
func (r *Repository) Dismiss(number int, id int64) {
	r.do(func() {
		for _, v := range r.pull(number).reviews {
			if v.id == id {
				v.verdict = "DISMISSED"
			}
		}
	})
}

// Close closes a pull request by a person.
func (r *Repository) Close(number int, login string) {
	r.do(func() { r.end(r.pull(number), login) })
}

func (r *Repository) end(p *pull, login string) {
	p.State, p.endedBy, p.Queued = "closed", login, false
}

// Reopen opens a closed pull request again, by a person.
func (r *Repository) Reopen(number int, _ string) {
	r.do(func() { r.pull(number).State = "open" })
}

// Merge merges a pull request by a person, whatever is required. It fails the test if there is a conflict.
func (r *Repository) Merge(number int, login, method string) {
	r.do(func() {
		if f := r.merge(r.pull(number), login, method); f != nil {
			r.s.t.Errorf("githubtest: merge %d: %s", number, f.message)
		}
	})
}

// FinishQueue merges the pull requests of the merge queue.
func (r *Repository) FinishQueue() {
	r.do(func() {
		for _, p := range r.pulls {
			if p.Queued {
				p.Queued = false
				_ = r.merge(p, "github-merge-queue[bot]", "merge")
			}
		}
	})
}

// DeleteBranch deletes a branch. GitHub closes its pull requests.
func (r *Repository) DeleteBranch(branch string) {
	r.do(func() {
		_, _ = r.git("update-ref", "-d", "refs/heads/"+branch)
		r.s.settle()
	})
}

// SetCheck sets the result of a job of GitHub Actions on a commit; an empty conclusion: it runs. A second result of the same
// name is that of a rerun. The log is as Actions writes it. It returns the job's id.
func (r *Repository) SetCheck(sha, name, conclusion, log string) (id int64) {
	return r.SetRun(Run{SHA: sha, Name: name, Workflow: "CI", App: "github-actions", Conclusion: conclusion, Log: log})
}

// Run is a check run of an app.
type Run struct {
	SHA, Name, Conclusion string
	// Workflow is the workflow of a job of GitHub Actions, whose App is github-actions.
	Workflow, App string
	// Log is the log of a job, or the summary of another run.
	Log string
	// Annotations are problems of lines, as "path:line:level:message".
	Annotations []string
}

// SetRun sets the result of a check run.
func (r *Repository) SetRun(run Run) (id int64) {
	r.do(func() {
		c := &check{
			id: r.s.id(), sha: run.SHA, name: run.Name, workflow: run.Workflow, app: run.App, conclusion: run.Conclusion, log: run.Log,
			attempt: 1,
		}
		r.checks = slices.DeleteFunc(r.checks, func(old *check) bool {
			if old.sha != c.sha || old.workflow != c.workflow || old.app != c.app {
				return false
			}
			c.suite, c.run, c.attempt = old.suite, old.run, max(c.attempt, old.attempt)
			if old.name != c.name {
				return false
			}
			if old.conclusion != "" {
				c.attempt = old.attempt + 1
			} else {
				c.id = old.id
			}
			return true
		})
		c.suite, c.run = cmp.Or(c.suite, r.s.id()), cmp.Or(c.run, r.s.id())
		for _, text := range run.Annotations {
			part := append(strings.SplitN(text, ":", 4), "", "", "")
			c.annotations = append(c.annotations, annotationDoc(part[0], part[1], part[2], part[3]))
		}
		r.checks = append(r.checks, c)
		id = c.id
	})
	return id
}

// SetStatus sets a commit status: pending, success, failure or error.
func (r *Repository) SetStatus(sha, context, state, description string) {
	r.do(func() {
		r.statuses = slices.DeleteFunc(r.statuses, func(old *status) bool { return old.sha == sha && old.context == context })
		r.statuses = append(r.statuses, &status{
			id: r.s.id(), sha: sha, context: context, state: state, description: description, to: "https://ci.example.com/" + context,
		})
	})
}

// Head is the commit of a branch; empty: there is none.
func (r *Repository) Head(branch string) (sha string) {
	r.do(func() { sha = r.sha(branch) })
	return sha
}

func (r *Repository) sha(branch string) string {
	out, _ := r.git("for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
	return out
}

// git runs git in the bare repository.
func (r *Repository) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.s.options.Dir(r.stored)
	cmd.Env = []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin",
		"GIT_AUTHOR_NAME=GitHub", "GIT_AUTHOR_EMAIL=noreply@github.com", "GIT_COMMITTER_NAME=GitHub",
		"GIT_COMMITTER_EMAIL=noreply@github.com",
	}
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// settle does what GitHub does after a push: heads move, and a pull request without its branch is closed. The server is locked.
func (s *Server) settle() {
	for _, r := range s.repos {
		for _, p := range r.pulls {
			if p.State != "open" {
				continue
			}
			switch head := r.sha(p.Branch); head {
			case p.head:
			case "":
				r.end(p, "")
			default:
				p.head = head
			}
		}
	}
}
