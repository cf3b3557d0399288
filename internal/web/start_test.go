package web

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
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

func TestASessionIsPreviewedAndStarted(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	fields := map[string]string{"team": "web", "requirement": "Build <b>it</b>.\r\nSoon.", "decisions": "port=8081\r\n", "labels": "area=web", "pause_after": "design, frontend", "action": "preview"}
	answer, text := submit(t, server.URL+"/start", fields, map[string]string{"files": "an archive"})
	require.Equal(t, http.StatusOK, answer.StatusCode)
	inert(t, text)
	says(t, text, "Team web would do this", "Build &lt;b&gt;it&lt;/b&gt;.\nSoon.", "3 files", ".env", `name="workspace" value="0123"`, "left out", "supplied: 2 files", `value="web" selected`)
	require.Empty(t, p.started, "a preview starts nothing")
	require.Equal(t, [][]byte{[]byte("an archive")}, p.uploads)

	fields["action"], fields["workspace"] = "start", "0123"
	answer, _ = submit(t, server.URL+"/start", fields, nil)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "/sessions/web-8", answer.Header.Get("Location"))
	require.Equal(t, []control.NewSession{{
		Team: control.TeamInput{Name: "web"}, Requirement: "Build <b>it</b>.\nSoon.", Workspace: "0123", Decisions: map[string]string{"port": "8081"}, Labels: map[string]string{"area": "web"},
		PhaseSelection: control.PhaseSelection{PauseAfter: []string{"design", "frontend"}},
	}}, p.started)
}

func TestAWrongFormKeepsWhatWasEntered(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	p.invalid = invalid("phase \"desing\" not found")
	answer, text := submit(t, dashboard(t, p).URL+"/start", map[string]string{"requirement": "Build it.", "from": "desing", "action": "start"}, map[string]string{"team_file": "name: web\n"})
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	says(t, text, `role="alert"`, "from: phase &#34;desing&#34; not found", "Build it.", `value="desing"`, "name: web")
	require.Empty(t, p.started)
	_, text = submit(t, dashboard(t, p).URL+"/start", nil, map[string]string{"team_file": "\xff\xfe"})
	says(t, text, "not text")
}

func TestASessionIsResumedAndForkedAfterAPreview(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/sessions/web-7/resume?force=frontend&edit=design:abcd")
	says(t, text, "What happens", "its input has changed", "blob 12ab is missing", `name="force" value="frontend"`, `name="edit" value="design:abcd"`, "Resume the session")
	answer := post(t, server.URL+"/sessions/web-7/resume", url.Values{"force": {"frontend"}, "edit": {"design:abcd"}, "from": {"design"}})
	require.Equal(t, "/sessions/web-7?of=web-7&said=resumed", answer.Header.Get("Location"))
	require.Equal(t, []control.Resume{{Force: []string{"frontend"}, Edits: map[string]spec.Digest{"design": "abcd"}, PhaseSelection: control.PhaseSelection{From: "design"}}}, p.resumed)

	_, text = visit(t, server.URL+"/sessions/web-7/fork?from=frontend")
	says(t, text, "Start the fork")
	answer = post(t, server.URL+"/sessions/web-7/fork", url.Values{"from": {"frontend"}, "as": {" second "}})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, []control.Fork{{From: "frontend", As: "second"}}, p.forks)

	p.foreseen = control.Foreseen{Session: "web-7", Unchanged: session.Completed}
	_, text = visit(t, server.URL+"/sessions/web-7/resume")
	says(t, text, "Nothing is left to run")
	require.NotContains(t, text, "Resume the session")
}

func TestFilesAreSupplied(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	answer, _ := submit(t, server.URL+"/sessions/web-7/requests/r-9/supply", map[string]string{"return": "/inbox"}, map[string]string{"files": "an archive"})
	require.Equal(t, "/inbox?of=web-7&said=supply", answer.Header.Get("Location"))
	require.Equal(t, []session.Answer{{Request: "r-9", Action: session.AnswerSupply, Files: "0123"}}, p.answers)
	answer, _ = submit(t, server.URL+"/sessions/web-7/requests/r-9/supply", nil, nil)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Len(t, p.answers, 1)
}

func TestAnEditedFileLeadsToThePreview(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	answer := post(t, dashboard(t, p).URL+"/sessions/web-7/edit", url.Values{"phase": {"design"}, "path": {"docs/a.md"}, "text": {"one\r\ntwo\r\n"}})
	require.Equal(t, "/sessions/web-7/resume?edit=design%3A0123", answer.Header.Get("Location"))
	require.Equal(t, []map[string]string{{"docs/a.md": "one\ntwo\n"}}, p.kept)
}
