package web

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// submit sends the form that starts a session, with files.
func submit(t *testing.T, address string, fields, files map[string]string) (*http.Response, string) {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, value := range fields {
		require.NoError(t, w.WriteField(name, value))
	}
	for name, content := range files {
		part, err := w.CreateFormFile(name, name+".file")
		require.NoError(t, err)
		_, err = part.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, &body)
	require.NoError(t, err)
	r.Header.Set("Content-Type", w.FormDataContentType())
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(text)
}

// digest is one of files.
var digest = strings.Repeat("0123", 16)

func TestASessionIsPreviewedAndStarted(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/start?team=web")
	says(t, text, "Start a session of web", "A &lt;b&gt;web&lt;/b&gt; service", `<option value="shop">`,
		`name="only" value="frontend"`, `name="upload:supplied/design"`, "architect; needs approval", "delivers the work", `maxlength="262144" required`)
	fields := map[string]string{
		"team": "web", "requirement": "Build <b>it</b>.\r\nSoon.", "decisions": "port=8081\r\n", "labels": "area=web",
		"pause_after": "design", "from": "frontend",
		"stored:supplied/design": digest + " 2 files", "action": "preview",
	}
	answer, text := submit(t, server.URL+"/start", fields, map[string]string{"upload:workspace": "an archive"})
	require.Equal(t, http.StatusOK, answer.StatusCode)
	inert(t, text)
	says(t, text, "Team web would do this", "Build &lt;b&gt;it&lt;/b&gt;.\nSoon.", "3 files", ".env",
		`name="stored:workspace" value="0123 3 files`, "left out", "supplied: 2 files", "pull request of acme/shop",
		`name="pause_after" value="design" checked`, `<option value="frontend" selected>`, "area=web", "port=8081",
		`name="stored:supplied/design" value="`+digest+` 2 files" checked`)
	require.Empty(t, p.started, "a preview starts nothing")
	require.Equal(t, [][]byte{[]byte("an archive")}, p.uploads)

	fields["action"], fields["stored:workspace"] = "start", digest+" 3 files"
	answer, _ = submit(t, server.URL+"/start", fields, nil)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "/sessions/web-8", answer.Header.Get("Location"))
	require.Equal(t, []control.NewSession{{
		Team: control.TeamInput{Name: "web"}, Requirement: "Build <b>it</b>.\nSoon.", Workspace: spec.Digest(digest),
		Decisions: map[string]string{"port": "8081"}, Labels: map[string]string{"area": "web"},
		PhaseSelection: control.PhaseSelection{PauseAfter: []string{"design"}, From: "frontend"},
		Supplied:       map[string]spec.Digest{"design": spec.Digest(digest)},
	}}, p.started)
}

// TestAFormThatIsSentAgainIsDoneOnce sends forms twice, as after a second click or a lost answer.
func TestAFormThatIsSentAgainIsDoneOnce(t *testing.T) {
	t.Parallel()
	st, err := store.Create(filepath.Join(t.TempDir(), "store"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	base := &control.Base{Store: st, Namespace: "default", Now: time.Now, Audit: access.NewAudit(st.State, time.Now)}
	statetest.Admit(t, st.State, session.Key{Namespace: "default", Session: "one"}, "web",
		statetest.Limit(session.BudgetOfDay, "web", spec.Cap{Tokens: 100}))
	p := samplePlane()
	operations := p.operations()
	operations.Money, operations.Starts = control.Money{Base: base}, control.Starts{Base: base}
	pages, admin := New(testOptions(), operations), as(access.Local("alice"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		pages.ServeHTTP(w, r.WithContext(admin(r.Context())))
	}))
	t.Cleanup(server.Close)

	for _, once := range []string{"k1", "k1", "k2"} {
		answer := post(t, server.URL+"/operate/budgets/web/raise", url.Values{"tokens": {"50"}, "once": {once}})
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	}
	day, err := control.Money{Base: base}.Day(admin(t.Context()), "web")
	require.NoError(t, err)
	require.Equal(t, spec.Cap{Tokens: 200}, day.Limit)

	keys := regexp.MustCompile(`name="once" value="([A-Z2-7]{26})"`)
	_, first := visit(t, server.URL+"/start?team=web")
	_, other := visit(t, server.URL+"/start?team=web")
	for _, page := range []string{first, first, other} { // without Temporal, each start fails
		submit(t, server.URL+"/start", map[string]string{
			"file": webTeam, "requirement": "Build it.", "action": "start",
			"once": keys.FindStringSubmatch(page)[1],
		}, nil)
	}
	events, err := base.Audit.Events(t.Context(), access.EventFilter{Action: "session.start"})
	require.NoError(t, err)
	require.Len(t, events.Events, 3)
	require.Equal(t, events.Events[2].Session, events.Events[1].Session)
	require.NotEqual(t, events.Events[1].Session, events.Events[0].Session)
}

// What is wrong stands at its field, and the form keeps what was entered.
func TestAWrongFormKeepsWhatWasEntered(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	p.invalid = invalid("no phase lies between them")
	server := dashboard(t, p)
	answer, text := submit(t, server.URL+"/start", map[string]string{
		"requirement": "Build it.", "from": "frontend",
		"action": "preview",
	}, map[string]string{"team_file": webTeam})
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	inert(t, text)
	says(t, text, `role="alert"`, `<a href="#field-from">From phase</a>: no phase lies between them`,
		`aria-invalid="true" aria-describedby="error-from"`, `id="session-phases" open`, "Build it.",
		`<option value="frontend" selected>`, "name: web")
	_, text = submit(t, server.URL+"/start", map[string]string{"team": "web", "labels": "area", "action": "start"}, nil)
	says(t, text, `id="error-labels">&#34;area&#34; is not of the form NAME=VALUE`)
	require.Empty(t, p.started)
}

// A team without a name is chosen first: a registered one, or a file.
func TestATeamIsChosenFirst(t *testing.T) {
	t.Parallel()
	server := dashboard(t, samplePlane())
	_, text := visit(t, server.URL+"/start?choose")
	inert(t, text)
	says(t, text, `href="/start?team=web"`, `name="team_file"`)
	answer, text := submit(t, server.URL+"/start", nil, map[string]string{"team_file": webTeam})
	require.Equal(t, http.StatusOK, answer.StatusCode)
	says(t, text, "Start a session of web", "instructions: Design it.")
	require.NotContains(t, text, `name="team" value`)
	for file, wrong := range map[string]string{
		"\xff\xfe": "not text",
		strings.Replace(webTeam, "needs:", "need:", 1): `<span class="chip">line 9</span> <code>phases[1].need</code>`,
	} {
		answer, text = submit(t, server.URL+"/start", nil, map[string]string{"team_file": file})
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
		says(t, text, wrong)
	}
}

func TestATeamIsRegistered(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/register-team?team=web")
	inert(t, text)
	says(t, text, "Register a version of web", `name="team" value="web"`)
	answer, text := submit(t, server.URL+"/register-team",
		map[string]string{"file": strings.Replace(webTeam, "agent: claude", "agent: <b>", 1)}, nil)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	inert(t, text)
	says(t, text, `<span class="chip">line 5</span> <code>personas.architect.agent</code>`, "name: web")
	_, text = submit(t, server.URL+"/register-team", nil, nil)
	says(t, text, "Choose a team file")
	require.Empty(t, p.registered)
	for _, said := range []string{"registered", "unchanged"} {
		answer, _ = submit(t, server.URL+"/register-team", map[string]string{"file": strings.ReplaceAll(webTeam, "\n", "\r\n")}, nil)
		require.Equal(t, "/teams/web?said="+said, answer.Header.Get("Location"))
	}
	require.Equal(t, control.Registration{Text: webTeam}, p.registered[0])
	_, text = visit(t, server.URL+"/teams/web?said=registered")
	says(t, text, "The version is registered.", `href="/register-team?team=web"`)
}

func TestASessionIsResumedAndForkedAfterAPreview(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/sessions/web-7/resume?force=frontend&edit=design:abcd")
	says(t, text, "What happens", "its input has changed", "blob 12ab is missing", `name="force" value="frontend"`,
		`name="edit" value="design:abcd"`, "Resume the session")
	answer := post(t, server.URL+"/sessions/web-7/resume", url.Values{
		"force": {"frontend"}, "edit": {"design:abcd"},
		"from": {"design"},
	})
	require.Equal(t, "/sessions/web-7?of=web-7&said=resumed", answer.Header.Get("Location"))
	require.Equal(t, []control.Resume{{
		Force: []string{"frontend"}, Edits: map[string]spec.Digest{"design": "abcd"},
		PhaseSelection: control.PhaseSelection{From: "design"},
	}}, p.resumed)

	_, text = visit(t, server.URL+"/sessions/web-7/fork?from=frontend")
	says(t, text, "Start the fork")
	answer = post(t, server.URL+"/sessions/web-7/fork", url.Values{"from": {"frontend"}, "as": {" second "}})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, []control.Fork{{From: "frontend", As: "second"}}, p.forks)

	const own, other = "version: 1\r\nname: web\r\n", "version: 1\nname: other\n"
	fork := func(action, file string) *http.Response {
		return post(t, server.URL+"/sessions/web-7/fork", url.Values{
			"from": {"frontend"}, "checkpoint": {"9f86d081884c"},
			"file": {file}, "action": {action},
		})
	}
	require.Equal(t, http.StatusOK, fork("preview", other).StatusCode)
	require.Len(t, p.forks, 1, "a preview starts nothing")
	require.Equal(t, http.StatusSeeOther, fork("", own).StatusCode)
	require.Equal(t, control.Fork{From: "frontend", Checkpoint: "9f86d081884c"}, p.forks[1],
		"the session's own text is no other team")
	require.Equal(t, http.StatusSeeOther, fork("", other).StatusCode)
	require.Equal(t, control.TeamInput{File: other}, p.forks[2].Team)

	p.foreseen = control.Foreseen{Session: "web-7", Unchanged: session.Completed}
	_, text = visit(t, server.URL+"/sessions/web-7/resume")
	says(t, text, "Nothing is left to run")
	require.NotContains(t, text, "Resume the session")
}

func TestFilesAreSupplied(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	answer, _ := submit(t, server.URL+"/sessions/web-7/requests/r-9/supply", map[string]string{"return": "/inbox"},
		map[string]string{"files": "an archive"})
	require.Equal(t, "/inbox?of=web-7&said=supply", answer.Header.Get("Location"))
	require.Equal(t, []session.Answer{{Request: "r-9", Action: session.AnswerSupply, Files: "0123"}}, p.answers)
	answer, _ = submit(t, server.URL+"/sessions/web-7/requests/r-9/supply", nil, nil)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Len(t, p.answers, 1)
}

func TestAnEditedFileLeadsToThePreview(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	answer := post(t, dashboard(t, p).URL+"/sessions/web-7/edit", url.Values{
		"phase": {"design"}, "path": {"docs/a.md"},
		"text": {"one\r\ntwo\r\n"},
	})
	require.Equal(t, "/sessions/web-7/resume?edit=design%3A0123", answer.Header.Get("Location"))
	require.Equal(t, []map[string]string{{"docs/a.md": "one\ntwo\n"}}, p.kept)
}
