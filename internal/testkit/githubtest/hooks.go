package githubtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// Hook is where webhooks go.
type Hook struct {
	URL, Secret string
	// Held: nothing is sent by itself. Tests take the deliveries and send them, or do not.
	Held bool
}

// Delivery is a webhook's delivery.
type Delivery struct {
	ID, Event, Action string
	Body              []byte
}

// SetHook makes the server send webhooks from now on.
func (s *Server) SetHook(h Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = &h
}

// Deliveries returns the deliveries that were not sent, oldest first, and forgets them.
func (s *Server) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.events
	s.events = nil
	return out
}

// event is something that webhooks are sent about. The server is locked.
func (s *Server) event(name, action string, r *Repository, sender string, payload map[string]any) {
	if s.hook == nil {
		return
	}
	body := doc{"action": action, "repository": r.doc(), "sender": s.user(sender)}
	maps.Copy(body, payload)
	if s.options.App != nil {
		body["installation"] = doc{"id": s.options.App.Installation}
	}
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Errorf("githubtest: %v", err)
		return
	}
	d := Delivery{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", s.id()), Event: name, Action: action, Body: text}
	if s.hook.Held {
		s.events = append(s.events, d)
		return
	}
	s.sending.Go(func() { _, _ = s.Send(d) })
}

// OpenIssue sends the event of an issue with labels that a person has opened.
func (r *Repository) OpenIssue(number int, login, association, title, body string, labels ...string) {
	r.do(func() {
		names := []doc{}
		for _, l := range labels {
			names = append(names, doc{"name": l})
		}
		r.s.event("issues", "opened", r, login, doc{"issue": doc{
			"id": r.s.id(), "number": number, "title": title, "body": body, "state": "open", "user": r.s.user(login),
			"author_association": association, "labels": names, "html_url": fmt.Sprintf("%s/%s/issues/%d", r.s.URL, r.full(), number),
		}})
	})
}

// Send sends a delivery, with its signature, and returns the status of the answer.
func (s *Server) Send(d Delivery) (status int, err error) {
	s.mu.Lock()
	hook := *s.hook
	s.mu.Unlock()
	req, err := http.NewRequest(http.MethodPost, hook.URL, bytes.NewReader(d.Body))
	if err != nil {
		return 0, err
	}
	mac := hmac.New(sha256.New, []byte(hook.Secret))
	_, _ = mac.Write(d.Body)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/test", "X-GitHub-Event": d.Event, "X-GitHub-Delivery": d.ID,
		"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	} {
		req.Header.Set(name, value)
	}
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	return resp.StatusCode, resp.Body.Close()
}
