package jiratest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Issue is a ticket as the server has it.
type Issue struct {
	ID, Key string
	Project string
	// Fields are as they were given.
	Fields      map[string]json.RawMessage
	Comments    []json.RawMessage
	Attachments []Attachment
	created     time.Time
}

// Labels are the issue's.
func (i Issue) Labels() []string {
	var labels []string
	_ = json.Unmarshal(i.Fields["labels"], &labels)
	return labels
}

// Text is a field that is a string.
func (i Issue) Text(field string) string {
	var text string
	_ = json.Unmarshal(i.Fields[field], &text)
	return text
}

// Attachment is a file of an issue.
type Attachment struct {
	ID      string
	Name    string
	Content []byte
}

// Issues lists the issues, oldest first.
func (s *Server) Issues() []Issue {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Issue, len(s.issues))
	for i, issue := range s.issues {
		out[i] = *issue
		out[i].Comments = slices.Clone(issue.Comments)
	}
	return out
}

// Add puts an issue into a project and returns its key. Attachments get ids.
func (s *Server) Add(project string, fields map[string]any, files ...Attachment) string {
	raw := map[string]json.RawMessage{}
	for name, value := range fields {
		data, err := json.Marshal(value)
		if err != nil {
			panic("jiratest: " + err.Error())
		}
		raw[name] = data
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	issue := s.add(project, raw)
	for _, f := range files {
		f.ID = s.id()
		s.files[f.ID] = f
		issue.Attachments = append(issue.Attachments, f)
	}
	return issue.Key
}

// Comment adds a comment of somebody else to an issue.
func (s *Server) Comment(key, body string) {
	data, err := json.Marshal(body)
	if err != nil {
		panic("jiratest: " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if issue := s.find(key); issue != nil {
		issue.Comments = append(issue.Comments, data)
	}
}

func (s *Server) id() string {
	s.nextID++
	return strconv.Itoa(s.nextID)
}

func (s *Server) add(project string, fields map[string]json.RawMessage) *Issue {
	n := 1
	for _, i := range s.issues {
		if i.Project == project {
			n++
		}
	}
	issue := &Issue{ID: s.id(), Key: fmt.Sprintf("%s-%d", project, n), Project: project, Fields: fields, created: time.Now()}
	s.issues = append(s.issues, issue)
	return issue
}

func (s *Server) find(key string) *Issue {
	for _, i := range s.issues {
		if strings.EqualFold(i.Key, key) || i.ID == key {
			return i
		}
	}
	return nil
}

// seen finds an issue that the account may see, or answers that there is none.
func (s *Server) seen(w http.ResponseWriter, key string) *Issue {
	if i := s.find(key); i != nil && !s.denied(i.Project, "BROWSE_PROJECTS") {
		return i
	}
	message := "Issue does not exist or you do not have permission to see it."
	if s.options.DataCenter {
		message = "Issue Does Not Exist"
	}
	refuse(w, http.StatusNotFound, nil, message)
	return nil
}

func (s *Server) self(parts string) string { return s.URL() + "/rest/api/2/" + parts }

func (s *Server) issue(w http.ResponseWriter, key string) {
	i := s.seen(w, key)
	if i == nil {
		return
	}
	fields := map[string]any{}
	for name, value := range i.Fields {
		fields[name] = value
	}
	files := []map[string]any{}
	for _, f := range i.Attachments {
		content := s.self("attachment/content/" + f.ID)
		if s.options.DataCenter {
			content = s.URL() + "/secure/attachment/" + f.ID + "/" + strings.ReplaceAll(f.Name, " ", "+")
		}
		files = append(files, map[string]any{
			"self": s.self("attachment/" + f.ID), "id": f.ID, "filename": f.Name, "size": len(f.Content),
			"mimeType": "application/octet-stream", "created": "2026-11-21T10:00:00.000+0000", "content": content,
		})
	}
	fields["attachment"] = files
	reply(w, http.StatusOK, map[string]any{"id": i.ID, "key": i.Key, "self": s.self("issue/" + i.ID), "fields": fields})
}

func (s *Server) comments(w http.ResponseWriter, r Request, key string) {
	i := s.seen(w, key)
	if i == nil {
		return
	}
	start, most := page(r, 50)
	bodies := slices.Clone(i.Comments)
	if r.Query.Get("orderBy") == "-created" {
		slices.Reverse(bodies)
	}
	list := []map[string]any{}
	for n := start; n < min(start+most, len(bodies)); n++ {
		list = append(list, map[string]any{
			"id": strconv.Itoa(n), "body": bodies[n], "created": "2026-11-21T10:00:00.000+0000",
			"author": map[string]any{"displayName": "Ann Other"},
		})
	}
	reply(w, http.StatusOK, map[string]any{"startAt": start, "maxResults": most, "total": len(bodies), "comments": list})
}

// page is the part of a list that a request asks for: Jira gives no more than 100
// at once.
func page(r Request, most int) (start, size int) {
	start, _ = strconv.Atoi(r.Query.Get("startAt"))
	if n, err := strconv.Atoi(r.Query.Get("maxResults")); err == nil {
		most = min(n, 100)
	}
	return max(start, 0), most
}

func (s *Server) addComment(w http.ResponseWriter, r Request, key string) {
	i := s.seen(w, key)
	if i == nil {
		return
	}
	if s.denied(i.Project, "ADD_COMMENTS") {
		refuse(w, http.StatusForbidden, nil, "You do not have the permission to comment on this issue.")
		return
	}
	var sent struct {
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(r.Body, &sent); err != nil {
		refuse(w, http.StatusBadRequest, nil, "Invalid request payload. Refer to the REST API documentation and try again.")
		return
	}
	if why := s.checkText(sent.Body); why != "" {
		if s.options.DataCenter {
			refuse(w, http.StatusBadRequest, map[string]string{"comment": why})
		} else {
			refuse(w, http.StatusBadRequest, map[string]string{"comment": why}, "Comment body is not valid!")
		}
		return
	}
	i.Comments = append(i.Comments, sent.Body)
	reply(w, http.StatusCreated, map[string]any{"id": s.id(), "body": sent.Body})
}

// attachmentOfCloud redirects to the host that has the files.
func (s *Server) attachmentOfCloud(w http.ResponseWriter, id string) {
	if _, ok := s.files[id]; !ok {
		refuse(w, http.StatusNotFound, nil, "The attachment with id '"+id+"' does not exist")
		return
	}
	w.Header().Set("Location", s.media.URL+"/file/"+id+"/binary?token=signed")
	w.WriteHeader(http.StatusSeeOther)
}

// serveMedia is the host that has Cloud's files: it takes no credentials.
func (s *Server) serveMedia(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = append(s.fetched, Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone()})
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	f, ok := s.files[parts[min(1, len(parts)-1)]]
	if !ok || r.URL.Query().Get("token") != "signed" || r.Header.Get("Authorization") != "" {
		http.Error(w, "InvalidArgument", http.StatusBadRequest)
		return
	}
	serveFile(w, f)
}

func (s *Server) attachmentOfServer(w http.ResponseWriter, rest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _, _ := strings.Cut(rest, "/")
	f, ok := s.files[id]
	if !ok || !s.options.DataCenter {
		deadLink(w)
		return
	}
	serveFile(w, f)
}

func serveFile(w http.ResponseWriter, f Attachment) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", "attachment")
	_, _ = w.Write(f.Content)
}
