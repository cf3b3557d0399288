package gitlabtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// The names of events, as the header X-Gitlab-Event has them.
const (
	MergeRequestHook = "Merge Request Hook"
	NoteHook         = "Note Hook"
	PipelineHook     = "Pipeline Hook"
	IssueHook        = "Issue Hook"
)

// Event is what a webhook is told.
type Event struct {
	Name string
	// ID is the same for each delivery of the event.
	ID   string
	Body []byte
}

// Deliver sends an event to a webhook, and returns the answer's status. A test may deliver an event twice, late, or never.
func (e Event) Deliver(ctx context.Context, url, token string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(e.Body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "GitLab/18.0.0")
	req.Header.Set("X-Gitlab-Event", e.Name)
	req.Header.Set("X-Gitlab-Event-UUID", e.ID)
	req.Header.Set("Idempotency-Key", e.ID)
	req.Header.Set("X-Gitlab-Token", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// Events lists what has happened, oldest first.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// SendTo delivers each later event to a webhook, in order.
func (s *Server) SendTo(url, token string) {
	queue := make(chan Event, 10_000)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks, queue)
	s.senders.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			<-s.closing
			cancel()
		}()
		for e := range queue {
			_, _ = e.Deliver(ctx, url, token)
		}
	})
}

// OpenIssue makes the event of an issue that somebody opens.
func (s *Server) OpenIssue(name string, number int, by, title, body string, labels ...string) {
	s.change(name, func(p *project) {
		s.emit(IssueHook, p, s.user(by), map[string]any{
			"object_kind": "issue", "labels": labelsJSON(labels),
			"object_attributes": map[string]any{
				"iid": number, "title": title, "description": body, "state": opened, "action": "open",
				"url": fmt.Sprintf("%s/%s/-/issues/%d", s.URL(), p.Name, number),
			},
		})
	})
}

func labelsJSON(names []string) []any {
	all := []any{}
	for _, name := range names {
		all = append(all, map[string]any{"title": name})
	}
	return all
}

// emit makes an event. The server is locked.
func (s *Server) emit(name string, p *project, by *user, body map[string]any) {
	body["user"] = by.json()
	body["project"] = map[string]any{
		"id": p.id, "path_with_namespace": p.Name, "web_url": s.URL() + "/" + p.Name, "default_branch": p.DefaultBranch,
	}
	data, err := json.Marshal(body)
	check(err)
	e := Event{Name: name, ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", s.id()), Body: data}
	s.events = append(s.events, e)
	for _, h := range s.hooks {
		select {
		case h <- e:
		default: // the webhook has lost it
		}
	}
}

func (s *Server) attributes(mr *mergeRequest) map[string]any {
	return map[string]any{
		"id": mr.id, "iid": mr.number, "title": mr.title, "description": mr.description, "state": mr.state, "draft": mr.draft(),
		"source_branch": mr.source, "target_branch": mr.target, "last_commit": map[string]any{"id": mr.sha},
		"source_project_id": mr.project.id, "target_project_id": mr.project.id,
		"url": fmt.Sprintf("%s/%s/-/merge_requests/%d", s.URL(), mr.project.Name, mr.number),
	}
}

func (s *Server) emitMergeRequest(mr *mergeRequest, by *user, action string) {
	attributes := s.attributes(mr)
	attributes["action"] = action
	s.emit(MergeRequestHook, mr.project, by, map[string]any{
		"object_kind": "merge_request", "object_attributes": attributes, "labels": labelsJSON(mr.labels),
	})
}

func (s *Server) emitNote(mr *mergeRequest, n *note) {
	s.emit(NoteHook, mr.project, n.by, map[string]any{
		"object_kind": "note", "merge_request": s.attributes(mr),
		"object_attributes": map[string]any{
			"id": n.id, "note": n.body, "noteable_type": "MergeRequest", //nolint:misspell // GitLab's word
			"system": n.system, "action": "create",
			"url": fmt.Sprintf("%s/%s/-/merge_requests/%d#note_%d", s.URL(), mr.project.Name, mr.number, n.id),
		},
	})
}

func (s *Server) emitPipeline(p *project, of *pipeline) {
	of.of = p
	body := map[string]any{
		"object_kind": "pipeline",
		"object_attributes": map[string]any{
			"id": of.id, "ref": of.ref, "sha": of.sha, "status": of.state(), "url": s.pipelineJSON(p, of)["web_url"],
		},
	}
	for _, mr := range p.mergeRequests {
		if mr.state == opened && mr.headPipeline() == of {
			body["merge_request"] = s.attributes(mr)
		}
	}
	s.emit(PipelineHook, p, s.user(Self), body)
}
