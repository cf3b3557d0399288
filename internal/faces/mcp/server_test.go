package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/mcp"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// newBase is a store with a session that has ended and one that waits, without Temporal.
func newBase(t *testing.T) *control.Base {
	t.Helper()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	crew := spec.Team{Name: "web", Phases: []spec.Phase{{Name: "design", Personas: []string{"ann"}}}}
	for id, state := range map[string]session.State{"done": session.Completed, "waits": session.HelpIsNeeded} {
		statetest.Put(t, s.State, session.Key{Namespace: "default", Session: id}, func(e *session.Execution) {
			now := time.Now()
			e.Status = session.NewStatus(id, crew)
			e.Status.Status, e.StartedAt = state, &now
			if state == session.HelpIsNeeded {
				e.Phases[0].Assignments[0].Status = session.HelpIsNeeded
				_, err := s.State.AddRaise(t.Context(), session.Key{Namespace: "default", Session: id},
					budget.Raise{ID: "1", Scope: budget.SessionScope, By: "bob"}, "cli")
				require.NoError(t, err)
				e.Help = []session.Request{{
					ID: "design.ann.1", Kind: session.ForHelp, Phase: "design", Persona: "ann", Message: "stuck",
					Actions: []session.Action{session.AnswerRetry},
				}}
			}
		})
	}
	return &control.Base{Store: s, Namespace: "default", Audit: access.NewAudit(s.State, time.Now), Now: time.Now}
}

// call calls a tool.
func call(t *testing.T, client *sdk.ClientSession, tool string, in map[string]any) (out map[string]any, failure string) {
	t.Helper()
	got, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: in})
	require.NoError(t, err)
	if got.IsError {
		return nil, got.Content[0].(*sdk.TextContent).Text
	}
	out, _ = got.StructuredContent.(map[string]any)
	return out, ""
}

func connect(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestToolsOverStreams(t *testing.T) {
	t.Parallel()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	ctx := access.With(context.Background(), access.Local("ann@host"))
	base := newBase(t)
	go func() { ended <- mcp.Serve(ctx, base, "1", fromClient, toClient) }()
	client := connect(t, &sdk.IOTransport{Reader: fromServer, Writer: toServer})

	listed, err := client.ListTools(t.Context(), nil)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, tool := range listed.Tools {
		names[tool.Name] = tool.Annotations.ReadOnlyHint
		schema, err := json.Marshal(tool.InputSchema)
		require.NoError(t, err)
		require.NotContains(t, string(schema), `"$ref"`, "a reference leads nowhere")
	}
	require.True(t, names["diff_session"], names)
	require.Contains(t, names, "answer_request")
	require.False(t, names["answer_request"])

	found, _ := call(t, client, "list_sessions", map[string]any{"team": "web"})
	require.Len(t, found["sessions"], 2)
	waiting, _ := call(t, client, "wait_session", map[string]any{"session": "waits", "seconds": 1})
	require.Equal(t, true, waiting["ready"])
	require.Equal(t, "help_needed", waiting["status"])
	read, _ := call(t, client, "read_session", map[string]any{"session": "waits"})
	for tool, doc := range map[string]map[string]any{"wait_session": waiting, "read_session": read} {
		require.Len(t, doc["interventions"], 1, tool)
		require.Equal(t, "bob", doc["interventions"].([]any)[0].(map[string]any)["by"], tool)
	}
	open, _ := call(t, client, "list_requests", nil)
	require.Len(t, open["waiting"], 1)
	_, failure := call(t, client, "read_session", map[string]any{"session": "unknown"})
	require.Contains(t, failure, `session "unknown" not found in the store in `)
	_, failure = call(t, client, "answer_request", map[string]any{"session": "waits", "request": "design.ann.1", "action": "retry"})
	require.Equal(t, "Temporal cannot be reached", failure)
	log, err := base.Audit.Events(t.Context(), access.EventFilter{Action: "request.retry"})
	require.NoError(t, err)
	require.Equal(t, "ann@host", log.Events[0].Actor)
	require.Equal(t, "test for ann@host (over MCP)", log.Events[0].Who(), "no person has answered")

	require.NoError(t, client.Close())
	require.NoError(t, <-ended)
}

// served serves the tools to whom a request is from, by its header.
func served(t *testing.T, base *control.Base, actor func(user string) access.Actor) (url string) {
	t.Helper()
	handler := mcp.Handler(base, "1", slog.New(slog.DiscardHandler))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(access.With(r.Context(), actor(r.Header.Get("X-Test-User")))))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// as connects as a user.
func as(t *testing.T, url, user string) *sdk.ClientSession {
	t.Helper()
	return connect(t, &sdk.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: header{"X-Test-User", user}},
	})
}

// withRole is somebody with the role that is the user's name.
func withRole(role string) access.Actor {
	roles, _ := access.ParseRoles(role)
	return access.Actor{Name: "ann", Roles: roles}
}

// header sends a header with each request.
type header struct{ name, value string }

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return http.DefaultTransport.RoundTrip(r)
}

// TestClientsOverHTTPAreNamed calls as clients do that state their name in the first request only, and as those with hostile
// names.
func TestClientsOverHTTPAreNamed(t *testing.T) {
	t.Parallel()
	base := newBase(t)
	url := served(t, base, func(string) access.Actor { return access.Local("ann@desk") })
	post := func(session, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.Equal(t, 200, got.StatusCode, "%s", text)
		return got.Header.Get("Mcp-Session-Id")
	}
	for name, who := range map[string]string{
		"claude-code":                 "claude-code for ann@desk (over MCP)",
		`a\u001b[2J\u202e\nb`:         "a b for ann@desk (over MCP)",
		strings.Repeat("x", 10_000):   strings.Repeat("x", 39) + "… for ann@desk (over MCP)",
		"eve@desk FOR bob (over MCP)": "eve-desk-bob -over MCP- for ann@desk (over MCP)",
		"mcp":                         "mcp for ann@desk (over MCP)",
		"":                            "ann@desk (a program, over MCP)",
	} {
		id := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"`+name+`","version":"1"}}}`)
		post(id, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"answer_request","arguments":{"session":"waits","request":"design.ann.1","action":"retry"}}}`)
		log, err := base.Audit.Events(t.Context(), access.EventFilter{Action: "request.retry"})
		require.NoError(t, err)
		require.Equal(t, who, log.Events[0].Who())
	}
}

const webTeam = `
version: 1
name: web
personas:
  ann: {role: Developer, agent: coder, instructions: "Write code."}
phases:
  - {name: design, personas: [ann]}
  - {name: build, personas: [ann]}
`

func TestSessionsArePlannedWithFilesOfTheCall(t *testing.T) {
	t.Parallel()
	url := served(t, newBase(t), withRole)
	team := map[string]any{"file": webTeam}
	operator := as(t, url, "operator:web")
	stored, failure := call(t, operator, "store_texts",
		map[string]any{"team": team, "files": map[string]any{"src/a.go": "package a\n"}})
	require.Empty(t, failure)
	in := map[string]any{"team": team, "requirement": "Build it.", "from": "build", "workspace": stored["workspace"]}
	plan, failure := call(t, operator, "preview_session", in)
	require.Empty(t, failure)
	require.Equal(t, "web", plan["team"])
	require.Len(t, plan["phases"], 2)
	_, failure = call(t, operator, "start_session", in)
	require.Equal(t, "Temporal cannot be reached", failure)
	_, failure = call(t, operator, "preview_fork", map[string]any{"session": "done", "from": "design"})
	require.Contains(t, failure, "no readable checkpoint")
	_, failure = call(t, as(t, url, "viewer:web"), "preview_session", in)
	require.Contains(t, failure, "the role operator or admin for team web is missing")

	_, failure = call(t, operator, "preview_session", map[string]any{"requirement": "Build it."})
	require.Contains(t, failure, "team")
	_, failure = call(t, operator, "preview_session", map[string]any{"team": team, "file": "x"})
	require.Contains(t, failure, `unknown input "file"; preview_session takes: commit, `)

	for path, says := range map[string]string{"../a.go": "must stay inside the tree", "/a.go": "absolute"} {
		_, failure = call(t, operator, "store_texts", map[string]any{"team": team, "files": map[string]any{path: "x"}})
		require.Contains(t, failure, says)
	}
	_, failure = call(t, operator, "store_texts",
		map[string]any{"team": team, "files": map[string]any{"a": strings.Repeat("x", 600<<10)}})
	require.Contains(t, failure, "more than 512.0 KiB together")
}
