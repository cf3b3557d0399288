package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
)

// ask calls an operation, and decodes its document.
func ask[T any](ctx context.Context, c *Client, in call) (doc T, err error) {
	got, err := c.do(ctx, in)
	if err != nil {
		return doc, err
	}
	defer got.Body.Close() //nolint:errcheck // only read
	body := &io.LimitedReader{R: got.Body, N: maxDocument + 1}
	err = json.NewDecoder(body).Decode(&doc)
	switch {
	case body.N <= 0:
		err = fmt.Errorf("the Maestro server at %s: the answer to %s %s is larger than %d MiB", c.base, in.method, in.path, maxDocument>>20)
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("the Maestro server at %s: the answer to %s %s cannot be read: %w", c.base, in.method, in.path, err)
	}
	return doc, err
}

func read[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return ask[T](ctx, c, call{method: http.MethodGet, path: path, query: query})
}

// change calls an operation that changes something, with a body if it is not nil.
func change[T any](ctx context.Context, c *Client, path string, body any) (doc T, err error) {
	in := call{method: http.MethodPost, path: path}
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return doc, err
		}
		in.kind, in.body = "application/json", func() (io.Reader, error) { return bytes.NewReader(data), nil }
	}
	return ask[T](ctx, c, in)
}

// path is a path of the API; segments with other characters than names have are escaped.
func path(segments ...string) string {
	p := ""
	for _, s := range segments {
		if strings.Trim(s, ".") == "" { // it would name another path
			s = "-" + s
		}
		p += "/" + url.PathEscape(s)
	}
	return p
}

// ofSession is a path below a session.
func ofSession(sessionID string, segments ...string) string {
	return path(append([]string{"sessions", sessionID}, segments...)...)
}

// Sessions are described with [control.Sessions].
type Sessions struct{ *Client }

// List lists sessions.
func (s Sessions) List(ctx context.Context, f control.SessionFilter) (control.SessionList, error) {
	query := url.Values{"limit": {strconv.Itoa(f.Limit)}}
	for name, value := range map[string]string{"team": f.Team, "status": string(f.Status), "cursor": f.Cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for key, value := range f.Labels {
		query.Add("label", key+"="+value)
	}
	if !f.Since.IsZero() {
		query.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return read[control.SessionList](ctx, s.Client, "/sessions", query)
}

// Status reads a session's status.
func (s Sessions) Status(ctx context.Context, sessionID string) (v sessionstatus.Session, err error) {
	return read[sessionstatus.Session](ctx, s.Client, ofSession(sessionID), nil)
}

// Progress reads a session's status, and the progress of its work.
func (s Sessions) Progress(ctx context.Context, sessionID string) (p control.Progress, err error) {
	return read[control.Progress](ctx, s.Client, ofSession(sessionID, "progress"), nil)
}

// Cancel has a session end.
func (s Sessions) Cancel(ctx context.Context, sessionID string) (doc control.Cancellation, err error) {
	return change[control.Cancellation](ctx, s.Client, ofSession(sessionID, "cancel"), nil)
}

// Known lists sessions, for suggestions.
func (s Sessions) Known(ctx context.Context) (ids []string) {
	all, _ := s.List(ctx, control.SessionFilter{Limit: 1000}) // a hint that is missing does no harm
	for _, l := range all.Sessions {
		ids = append(ids, l.Session)
	}
	return ids
}

// Dashboard is the address of the page of a session.
func (s Sessions) Dashboard(_ context.Context, sessionID string) string {
	return s.base + path("sessions", sessionID)
}

// Requests are described with [control.Requests].
type Requests struct{ *Client }

// Inbox lists the open requests of all sessions.
func (r Requests) Inbox(ctx context.Context) (control.Inbox, error) {
	return read[control.Inbox](ctx, r.Client, "/requests", nil)
}

// Open lists the open requests of a session.
func (r Requests) Open(ctx context.Context, sessionID string) (open []session.Request, known bool, err error) {
	doc, err := read[struct {
		Requests []session.Request `json:"requests"`
		Known    bool              `json:"known"`
	}](ctx, r.Client, ofSession(sessionID, "requests"), nil)
	return doc.Requests, doc.Known, err
}

// Answer answers an open request. Who answers is who the token is of.
func (r Requests) Answer(ctx context.Context, sessionID string, a session.Answer) (doc control.Answered, err error) {
	return change[control.Answered](ctx, r.Client, ofSession(sessionID, "requests", a.Request, "answer"), struct {
		Action session.Action `json:"action"`
		Note   string         `json:"note,omitempty"`
		Files  spec.Digest    `json:"files,omitempty"`
	}{a.Action, a.Note, a.Files})
}
