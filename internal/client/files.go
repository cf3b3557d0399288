package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/store"
)

// Reviews are described with [control.Reviews].
type Reviews struct{ *Client }

// Artifacts lists the files that a session's assignments created or changed.
func (r Reviews) Artifacts(ctx context.Context, sessionID string) (doc control.Artifacts, err error) {
	return read[control.Artifacts](ctx, r.Client, ofSession(sessionID, "artifacts"), nil)
}

// Diff compares two trees of files. The server bounds the texts.
func (r Reviews) Diff(ctx context.Context, in control.DiffInput) (doc control.Diff, err error) {
	return read[control.Diff](ctx, r.Client, ofSession(in.Session, "diff"), compared(in, in.Paths))
}

// DiffFile compares one file.
func (r Reviews) DiffFile(ctx context.Context, in control.DiffInput, file string) (doc control.FileDiff, err error) {
	return read[control.FileDiff](ctx, r.Client, ofSession(in.Session, "diff", "file"), compared(in, []string{file}))
}

// compared says what is compared.
func compared(in control.DiffInput, paths []string) url.Values {
	query := url.Values{"path": paths}
	for name, value := range map[string]string{"which": in.Which, "with": in.With} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, value := range map[string]bool{"stat": in.Stat, "binary": in.Binary} {
		if value {
			query.Set(name, strconv.FormatBool(value))
		}
	}
	return query
}

// Result reads what a session has made so far into a store.
func (r Reviews) Result(ctx context.Context, sessionID string, in control.BundleInput, into *store.Store) (doc control.Result, err error) {
	query := url.Values{"path": in.Paths}
	if in.Tree {
		query.Set("tree", "true")
	}
	got, err := r.do(ctx, call{method: http.MethodGet, path: ofSession(sessionID, "bundle"), query: query})
	if err != nil {
		return doc, err
	}
	defer got.Body.Close() //nolint:errcheck // only read
	body := &remembering{ReadCloser: got.Body}
	doc, err = control.ReadBundle(ctx, body, into)
	if lost := body.failed.Load(); err != nil && lost != nil && ctx.Err() == nil {
		err = &UnreachableError{URL: r.base, Err: *lost}
	}
	return doc, err
}

// Teams are described with [control.Teams].
type Teams struct{ *Client }

// Read reads a version of a registered team.
func (t Teams) Read(ctx context.Context, name, version string) (control.RegisteredTeam, error) {
	query := url.Values{}
	if version != "" {
		query.Set("version", version)
	}
	return read[control.RegisteredTeam](ctx, t.Client, path("teams", name), query)
}

// Starts are described with [control.Starts].
type Starts struct{ *Client }

// Start starts a session, and waits until it is admitted. A team that the caller has loaded is sent
// as the text of a team file, unless the input names a registered one.
func (s Starts) Start(ctx context.Context, in control.NewSession) (doc control.Started, err error) {
	if in.Team, err = sent(in.Team); err != nil {
		return doc, err
	}
	return change[control.Started](ctx, s.Client, "/sessions", in)
}

// sent is a team as it is sent.
func sent(team control.TeamInput) (control.TeamInput, error) {
	if team.Loaded == nil || team.Name != "" {
		return team, nil
	}
	text, err := json.Marshal(team.Loaded)
	team.File = string(text)
	return team, err
}

// Resume continues a session. The team is sent as for a start.
func (s Starts) Resume(ctx context.Context, sessionID string, in control.Resume) (doc control.Started, err error) {
	if in.Team, err = sent(in.Team); err != nil {
		return doc, err
	}
	return change[control.Started](ctx, s.Client, ofSession(sessionID, "resume"), in)
}

// Fork starts a new session that has another's finished work. The team is sent as for a start.
func (s Starts) Fork(ctx context.Context, sessionID string, in control.Fork) (doc control.Started, err error) {
	if in.Team, err = sent(in.Team); err != nil {
		return doc, err
	}
	return change[control.Started](ctx, s.Client, ofSession(sessionID, "fork"), in)
}

// Upload stores the files of an archive for sessions of a team. archive opens it, for each try anew.
func (s Starts) Upload(ctx context.Context, team string, archive func() (io.Reader, error), include []string) (control.Workspace, error) {
	return ask[control.Workspace](ctx, s.Client, call{
		method: http.MethodPost, path: "/workspaces", query: url.Values{"team": {team}, "include": include}, kind: "application/octet-stream", body: archive,
	})
}
