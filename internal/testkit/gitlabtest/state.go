package gitlabtest

import (
	"crypto/sha1" //nolint:gosec // ids of discussions have this form
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The access levels of members.
const (
	Guest      = 10
	Reporter   = 20
	Developer  = 30
	Maintainer = 40
)

// Project is a project and its settings.
type Project struct {
	// Name is GROUP/NAME, or GROUP/SUBGROUP/NAME.
	Name string
	// Dir is its bare repository. Empty: the server makes one, with a file README.md.
	Dir string
	// DefaultBranch is main unless given.
	DefaultBranch string
	// FastForward: a merge request may only be merged by a fast-forward.
	FastForward bool
	// Trains: merge requests are merged one after the other, by [Server.RunTrain].
	Trains bool
	// PipelinesMustSucceed, ThreadsMustBeResolved and Approvals block merges.
	PipelinesMustSucceed, ThreadsMustBeResolved bool
	Approvals                                   int
	// NoMerge: the account may not merge into the default branch, which is protected.
	NoMerge bool
}

type project struct {
	Project
	id            int64
	archived      bool
	names         []string // earlier ones
	members       map[*user]int
	mergeRequests []*mergeRequest
	pipelines     []*pipeline
	statuses      []*status
}

type user struct {
	id    int64
	name  string
	bot   bool
	state string
}

type note struct {
	id               int64
	by               *user
	body             string
	system, resolved bool
	position         map[string]any
}

type discussion struct {
	id         string
	individual bool
	notes      []*note
}

// AddProject adds a project. The account is a developer there.
func (s *Server) AddProject(p Project) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.DefaultBranch == "" {
		p.DefaultBranch = "main"
	}
	made := &project{Project: p, id: s.id(), members: map[*user]int{s.user(Self): Developer}}
	if p.Dir == "" {
		made.Dir = filepath.Join(s.dir, strconv.FormatInt(made.id, 10)+".git")
		mustGit(s.dir, "", "init", "--quiet", "--bare", "--initial-branch="+p.DefaultBranch, made.Dir)
		commit(made.Dir, p.DefaultBranch, "", map[string]string{"README.md": "one\ntwo\nthree\n"})
	}
	s.projects = append(s.projects, made)
}

// change does something to a project under the server's lock.
func (s *Server) change(name string, do func(p *project)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, _ := s.find(name)
	if p == nil {
		panic("gitlabtest: there is no project " + name)
	}
	do(p)
}

// find finds a project by its id or a name. moved: it has another name now.
func (s *Server) find(name string) (found *project, moved bool) {
	for _, p := range s.projects {
		if p.Name == name || strconv.FormatInt(p.id, 10) == name {
			return p, false
		}
	}
	for _, p := range s.projects {
		if slices.Contains(p.names, name) {
			return p, true
		}
	}
	return nil, false
}

// Rename moves a project to another name. The earlier one redirects to it.
func (s *Server) Rename(name, to string) {
	s.change(name, func(p *project) { p.names, p.Name = append(p.names, p.Name), to })
}

// Archive makes a project read-only.
func (s *Server) Archive(name string) { s.change(name, func(p *project) { p.archived = true }) }

// Configure changes the settings of a project.
func (s *Server) Configure(name string, set func(p *Project)) {
	s.change(name, func(p *project) { set(&p.Project) })
}

// Delete deletes a project.
func (s *Server) Delete(name string) {
	s.change(name, func(p *project) { s.projects = slices.DeleteFunc(s.projects, func(q *project) bool { return p == q }) })
}

// Dir is the bare repository of a project.
func (s *Server) Dir(name string) (dir string) {
	s.change(name, func(p *project) { dir = p.Dir })
	return dir
}

// Push adds a commit with files to a branch, and returns it. A new branch begins at the default branch.
func (s *Server) Push(name, branch string, files map[string]string) (sha string) {
	s.change(name, func(p *project) {
		sha = commit(p.Dir, branch, headOf(p.Dir, p.DefaultBranch), files)
		for _, mr := range p.mergeRequests {
			if mr.source == branch && mr.state == opened {
				s.refresh(mr)
			}
		}
	})
	return sha
}

// Head is the newest commit of a branch; empty: there is no such branch.
func (s *Server) Head(name, branch string) (sha string) {
	s.change(name, func(p *project) { sha = headOf(p.Dir, branch) })
	return sha
}

// DeleteBranch deletes a branch.
func (s *Server) DeleteBranch(name, branch string) {
	s.change(name, func(p *project) { mustGit(p.Dir, "", "update-ref", "-d", "refs/heads/"+branch) })
}

// user returns an account, which is made if there is none. The server is locked.
func (s *Server) user(name string) *user {
	for _, u := range s.users {
		if strings.EqualFold(u.name, name) {
			return u
		}
	}
	u := &user{id: s.id(), name: name, state: "active"}
	s.users = append(s.users, u)
	return u
}

// AddMember makes an account a member of a project with an access level.
func (s *Server) AddMember(in, name string, level int) {
	s.change(in, func(p *project) { p.members[s.user(name)] = level })
}

// AddUser adds an account. bot: it is that of an access token or a service.
func (s *Server) AddUser(name string, bot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user(name).bot = bot
}

// Block blocks an account.
func (s *Server) Block(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user(name).state = "blocked"
}

func (u *user) json() map[string]any {
	if u == nil {
		return nil
	}
	return map[string]any{"id": u.id, "username": u.name, "name": u.name, "state": u.state}
}

// talk adds a discussion. The server is locked.
func (s *Server) talk(mr *mergeRequest, by *user, body string, individual, system bool, position map[string]any) *note {
	n := &note{id: s.id(), by: by, body: body, system: system, position: position}
	sum := sha1.Sum(fmt.Appendf(nil, "discussion %d", n.id)) //nolint:gosec // as above
	mr.discussions = append(mr.discussions, &discussion{id: hex.EncodeToString(sum[:]), individual: individual, notes: []*note{n}})
	return n
}

// told is a note by which GitLab tells what an account did.
func (s *Server) told(mr *mergeRequest, by *user, did string) { s.talk(mr, by, did, true, true, nil) }

// Comment adds a comment to a merge request, and returns its id.
func (s *Server) Comment(name string, number int, by, body string) (id int64) {
	s.at(name, number, func(_ *project, mr *mergeRequest) { id = s.talk(mr, s.user(by), body, true, false, nil).id })
	return id
}

// Comments adds many comments with a text and their number.
func (s *Server) Comments(name string, number int, by, body string, count int) {
	s.at(name, number, func(_ *project, mr *mergeRequest) {
		for i := range count {
			s.talk(mr, s.user(by), body+" "+strconv.Itoa(i+1), true, false, nil)
		}
	})
}

// Place is where a thread is. The zero place is the merge request as a whole.
type Place struct {
	Path string
	// Line is one of the new file, and Removed one of the old file. Both are zero for a whole file.
	Line, Removed int
}

// Thread begins a thread, and returns its id.
func (s *Server) Thread(name string, number int, by, body string, at Place) (id string) {
	s.at(name, number, func(p *project, mr *mergeRequest) {
		var position map[string]any
		if at.Path != "" {
			position = maps.Clone(mr.refs(p))
			position["position_type"], position["new_path"], position["old_path"] = "text", at.Path, at.Path
			if position["new_line"] = at.Line; at.Line == 0 {
				position["new_line"] = nil
			}
			if position["old_line"] = at.Removed; at.Removed == 0 {
				position["old_line"] = nil
			}
		}
		s.talk(mr, s.user(by), body, false, false, position)
		id = mr.discussions[len(mr.discussions)-1].id
	})
	return id
}

// Reply adds a comment to a thread.
func (s *Server) Reply(name string, number int, thread, by, body string) {
	s.at(name, number, func(_ *project, mr *mergeRequest) { s.reply(mr, mr.discussion(thread), s.user(by), body) })
}

func (s *Server) reply(mr *mergeRequest, d *discussion, by *user, body string) *note {
	n := &note{id: s.id(), by: by, body: body, position: d.notes[0].position}
	d.notes, d.individual = append(d.notes, n), false
	return n
}

func (d *discussion) resolve(resolved bool) {
	for _, n := range d.notes {
		n.resolved = resolved
	}
}

func (d *discussion) json() map[string]any {
	notes := make([]map[string]any, len(d.notes))
	for i, n := range d.notes {
		notes[i] = n.json(!d.individual)
	}
	return map[string]any{"id": d.id, "individual_note": d.individual, "notes": notes}
}

func (n *note) json(resolvable bool) map[string]any {
	m := map[string]any{
		"id": n.id, "body": n.body, "author": n.by.json(), "created_at": timeOf(n.id), "system": n.system, "resolvable": resolvable,
	}
	if resolvable {
		m["resolved"] = n.resolved
	}
	if n.position != nil {
		m["position"] = n.position
	}
	return m
}
