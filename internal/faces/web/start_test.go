package web

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
	"github.com/maestro-hive/maestro/workflows"
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

// inputs are the started sessions.
func (p *plane) inputs() (all []workflows.SessionInput) {
	for _, m := range p.temporal.Started() {
		all = append(all, m.Content.(workflows.SessionInput))
	}
	return all
}

// paths are the files of a stored tree.
func (p *plane) paths(tree spec.Digest) []string {
	p.t.Helper()
	m, err := p.Store.Content.Manifest(p.ctx, tree)
	require.NoError(p.t, err)
	return m.Paths()
}

var storedField = regexp.MustCompile(`name="(stored:[a-z/]+)"\s+value="([^"]+)"`)

func TestASessionIsPreviewedAndStarted(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/start?team=web")
	says(t, text, "Start a session of web", "A &lt;b&gt;web&lt;/b&gt; service", `<option value="shop">`,
		`name="only" value="frontend"`, `name="upload:supplied/design"`, "architect; needs approval", "delivers the work",
		`maxlength="262144" required`, `name="only" value="ship"`)
	require.NotContains(t, text, "upload:supplied/ship", "a delivery has no files")
	fields := map[string]string{
		"team": "web", "requirement": "Build <b>it</b>.\r\nSoon.", "decisions": "port=8081\r\n", "labels": "area=web",
		"pause_after": "frontend", "from": "frontend", "action": "preview",
	}
	answer, text := submit(t, server.URL+"/start", fields, map[string]string{
		"upload:workspace":       string(worktest.Tar(t, map[string]string{"a.go": "package a\n", ".env": "KEY=x\n"})),
		"upload:supplied/design": string(worktest.Tar(t, map[string]string{"design.md": "# D\n"})),
	})
	require.Equal(t, http.StatusOK, answer.StatusCode)
	inert(t, text)
	says(t, text, "Team web would do this", "Build &lt;b&gt;it&lt;/b&gt;.\nSoon.", "1 file", ".env", "supplied: ",
		"pull request of acme/shop", `name="pause_after" value="frontend" checked`, `<option value="frontend" selected>`, "area=web",
		"port=8081")
	require.Empty(t, p.inputs(), "a preview starts nothing")

	kept := storedField.FindAllStringSubmatch(text, -1)
	require.Len(t, kept, 2)
	for _, field := range kept {
		fields[field[1]] = field[2]
	}
	fields["action"] = "start"
	answer, _ = submit(t, server.URL+"/start", fields, nil)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	started := p.inputs()
	require.Len(t, started, 1)
	in := started[0]
	require.Regexp(t, "^/sessions/web-", answer.Header.Get("Location"))
	asked, err := p.Store.Content.Blob(p.ctx, in.Requirement)
	require.NoError(t, err)
	require.Equal(t, "Build <b>it</b>.\nSoon.", string(asked))
	require.Equal(t, []string{"a.go"}, p.paths(in.Workspace))
	require.Equal(t, map[string]string{"area": "web"}, in.Labels)
	require.Equal(t, map[string]string{"port": "8081"}, in.Course.Given)
	require.Equal(t, []string{"frontend"}, in.Course.PauseAfter)
}

// TestAFormThatIsSentAgainIsDoneOnce sends forms twice, as after a second click or a lost answer.
func TestAFormThatIsSentAgainIsDoneOnce(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	for _, once := range []string{"k1", "k1", "k2"} {
		answer := post(t, server.URL+"/operate/budgets/web-service/raise", url.Values{"tokens": {"50"}, "once": {once}})
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	}
	day, err := control.Money{Base: p.Base}.Day(p.ctx, "web-service")
	require.NoError(t, err)
	require.EqualValues(t, 2_000_100, day.Limit.Tokens)

	keys := regexp.MustCompile(`name="once" value="([A-Z2-7]{26})"`)
	_, first := visit(t, server.URL+"/start?team=web")
	_, other := visit(t, server.URL+"/start?team=web")
	var ids []string
	for _, page := range []string{first, first, other} {
		answer, _ := submit(t, server.URL+"/start", map[string]string{
			"team": "web", "requirement": "Build it.", "action": "start", "once": keys.FindStringSubmatch(page)[1],
		}, nil)
		ids = append(ids, answer.Header.Get("Location"))
	}
	require.Equal(t, ids[0], ids[1])
	require.NotEqual(t, ids[1], ids[2])
	require.Len(t, p.inputs(), 2)
}

// What is wrong stands at its field, and the form keeps what was entered.
func TestAWrongFormKeepsWhatWasEntered(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	answer, text := submit(t, server.URL+"/start", map[string]string{
		"requirement": "Build it.", "from": "frontend", "until": "design", "action": "preview",
	}, map[string]string{"team_file": webTeam})
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	inert(t, text)
	says(t, text, `role="alert"`, `<a href="#field-`, `aria-invalid="true" aria-describedby="error-`, `id="session-phases" open`,
		"Build it.", `<option value="frontend" selected>`, "name: web")
	_, text = submit(t, server.URL+"/start", map[string]string{"team": "web", "labels": "area", "action": "start"}, nil)
	says(t, text, `id="error-labels">&#34;area&#34; is not of the form NAME=VALUE`)
	require.Empty(t, p.inputs())
}

// A team without a name is chosen first: a registered one, or a file.
func TestATeamIsChosenFirst(t *testing.T) {
	t.Parallel()
	server := dashboard(t, newPlane(t))
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
	p := newPlane(t)
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
	next := strings.Replace(webTeam, "Design it.", "Design it well.", 1)
	for _, said := range []string{"registered", "unchanged"} {
		answer, _ = submit(t, server.URL+"/register-team", map[string]string{"file": strings.ReplaceAll(next, "\n", "\r\n")}, nil)
		require.Equal(t, "/teams/web?said="+said, answer.Header.Get("Location"))
	}
	team, err := control.Teams{Base: p.Base}.Read(p.ctx, "web", "")
	require.NoError(t, err)
	require.Equal(t, next, team.File)
	require.Len(t, team.Versions, 2)
	_, text = visit(t, server.URL+"/teams/web?said=registered")
	says(t, text, "The version is registered.", `href="/register-team?team=web"`)
}

func TestASessionIsResumedAndForkedAfterAPreview(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	edited := post(t, server.URL+"/sessions/docs-2/edit", url.Values{
		"phase": {"design"}, "path": {"docs/a.md"}, "text": {"one\r\ntwo\r\n"},
	}).Header.Get("Location")
	require.Regexp(t, `^/sessions/docs-2/resume\?edit=design%3A[0-9a-f]{64}$`, edited)
	_, edit, _ := strings.Cut(edited, "%3A")
	text, err := p.Store.Content.Blob(p.ctx, p.entry(spec.Digest(edit), "docs/a.md"))
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(text))
	_, page := visit(t, server.URL+edited+"&force=frontend")
	says(t, page, "What happens", `name="force" value="frontend"`, `name="edit" value="design:`+edit, "Resume the session")
	answer := post(t, server.URL+"/sessions/docs-2/resume", url.Values{
		"force": {"frontend"}, "edit": {"design:" + edit}, "from": {"frontend"},
	})
	require.Equal(t, "/sessions/docs-2?of=docs-2&said=resumed", answer.Header.Get("Location"))
	course := p.inputs()[0].Course
	require.Equal(t, []string{"frontend"}, course.Force)
	require.Equal(t, "design", course.Supplied[0].Phase)

	_, page = visit(t, server.URL+"/sessions/done-1/fork?from=frontend")
	says(t, page, "Start the fork")
	own, err := control.Starts{Base: p.Base}.TeamText(p.ctx, "done-1")
	require.NoError(t, err)
	other := strings.Replace(own, "name: web", "name: other", 1)
	fork := func(more map[string]string) (int, []workflows.SessionInput) {
		form := url.Values{"from": {"frontend"}, "checkpoint": {"design"}}
		for name, value := range more {
			form.Set(name, value)
		}
		return post(t, server.URL+"/sessions/done-1/fork", form).StatusCode, p.inputs()
	}
	status, started := fork(map[string]string{"file": other, "action": "preview"})
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, started, "a preview starts nothing")
	for name, more := range map[string]map[string]string{
		"web": {"file": strings.ReplaceAll(own, "\n", "\r\n"), "as": " web-second "}, "other": {"file": other},
	} {
		status, started = fork(more)
		require.Equal(t, http.StatusSeeOther, status)
		require.Len(t, started, 1)
		team, err := p.Store.Team(p.ctx, started[0].Team)
		require.NoError(t, err)
		require.Equal(t, name, team.Name)
		require.Equal(t, "done-1", started[0].Origin.Session)
	}
	known, err := p.Store.State.HasSession(p.ctx, p.key("web-second"))
	require.NoError(t, err)
	require.True(t, known)
}

// entry is the content of a file of a stored tree.
func (p *plane) entry(tree spec.Digest, path string) spec.Digest {
	p.t.Helper()
	m, err := p.Store.Content.Manifest(p.ctx, tree)
	require.NoError(p.t, err)
	return m[path].SHA256
}

func TestFilesAreSupplied(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	answer, _ := submit(t, server.URL+"/sessions/web-5/requests/r-9/supply", map[string]string{"return": "/inbox"},
		map[string]string{"files": string(worktest.Tar(t, map[string]string{"code.go": "package code\n"}))})
	require.Equal(t, "/inbox?of=web-5&said=supply", answer.Header.Get("Location"))
	given := p.answers()
	require.Len(t, given, 1)
	require.Equal(t, session.Answer{Request: "r-9", Action: session.AnswerSupply, By: "alice", Files: given[0].Files}, given[0])
	require.Equal(t, []string{"code.go"}, p.paths(given[0].Files))
	answer, _ = submit(t, server.URL+"/sessions/web-5/requests/r-9/supply", nil, nil)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Empty(t, p.answers())
}
