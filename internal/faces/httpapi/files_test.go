package httpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
)

// checkpoint gives a session a checkpoint after its design, with files that were added.
func (h *service) checkpoint(id string, files map[string]string) {
	h.t.Helper()
	team := spec.Team{Name: "web", Phases: []spec.Phase{{Name: "design", Personas: []string{"ann"}}}}
	worktest.Put(h.t, h.base.Store, session.Key{Namespace: "default", Session: id},
		worktest.Checkpoint(h.t, h.base.Store, team, annDesigns, nil, files, session.Checkpoint{
			Assignments: []session.CheckpointAssignment{}, // the design is not done
		}))
}

func TestASessionsFilesAreServed(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), func(e *session.Execution) { e.Status.Status = session.Failed })
	h.checkpoint("one", map[string]string{"docs/<b>.html": "<script>", "a.txt": "one\n"})

	diff := read[control.Diff](t, h.call("GET", "/sessions/one/diff?path=a.txt&path=docs", nil))
	require.Len(t, diff.Files, 2)

	file := h.call("GET", "/sessions/one/file?path=docs/%3Cb%3E.html", nil)
	require.Equal(t, "<script>", string(file.body))
	require.Equal(t, "application/octet-stream", file.header.Get("Content-Type"), "no browser takes it for a page")
	require.Equal(t, "nosniff", file.header.Get("X-Content-Type-Options"))
	require.Equal(t, "attachment; filename=%3Cb%3E.html", file.header.Get("Content-Disposition"), "a name on each system")

	packed := h.call("GET", "/sessions/one/archive", nil)
	require.Equal(t, "attachment; filename=one.tar.gz", packed.header.Get("Content-Disposition"))
	require.Equal(t, "\x1f\x8b", string(packed.body[:2]), "it is compressed")

	patch := h.call("GET", "/sessions/one/patch", nil)
	require.Equal(t, http.StatusConflict, patch.status, "the result is not whole")
	require.Contains(t, string(h.call("GET", "/sessions/one/patch?partial=true&path=a.txt", nil).body), "+one\n")
	require.Equal(t, http.StatusUnprocessableEntity, h.call("GET", "/sessions/one/archive?path=nowhere", nil).status)
	require.Equal(t, http.StatusNotFound, h.call("GET", "/sessions/one/file?path=../one", nil).status)
	require.Equal(t, http.StatusNotFound, h.call("GET", "/sessions/one/checkpoints/build", nil).status)
	require.Equal(t, http.StatusOK, h.call("POST", "/sessions/one/checkpoints/verify", nil).status)
}

func TestADamagedFileIsNotServedAsWhole(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), nil)
	h.checkpoint("one", map[string]string{"a.txt": "one\n"})
	damage(t, h.base.Store.Dir(), spec.DigestOf([]byte("one\n")), "two\n")
	got, err := http.Get(h.url + "/sessions/one/file?path=a.txt")
	if err != nil {
		return
	}
	defer got.Body.Close()
	_, err = io.ReadAll(got.Body)
	require.True(t, err != nil || got.StatusCode >= 500)
}

func TestAResultThatIsTooLargeForABundleIsRefusedBeforeItBegins(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), nil)
	h.checkpoint("one", map[string]string{"a.txt": "one\n", "b.txt": "two\n"})
	require.Equal(t, http.StatusOK, h.call("GET", "/sessions/one/bundle", nil).status)
	damage(t, h.base.Store.Dir(), spec.DigestOf([]byte("one\n")), "")
	large := filepath.Join(h.base.Store.Dir(), filepath.FromSlash(storage.BlobKey(spec.DigestOf([]byte("one\n")))))
	require.NoError(t, os.Truncate(large, cas.DefaultFileBytes+1))
	refused := h.call("GET", "/sessions/one/bundle", nil)
	require.Equal(t, http.StatusUnprocessableEntity, refused.status)
	require.Contains(t, string(refused.body), "a file of more than 100 MB")
}

// damage changes a blob on the disk.
func damage(t *testing.T, store string, blob spec.Digest, content string) {
	t.Helper()
	path := filepath.Join(store, filepath.FromSlash(storage.BlobKey(blob)))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// soloTeam has one persona.
const soloTeam = `
version: 1
name: web
personas:
  ann: {role: Developer, agent: coder, instructions: "Write code."}
phases:
  - {name: design, personas: [ann], produces: [design.md]}
  - {name: build, personas: [ann], produces: [code.txt]}
`

func TestAWorkspaceIsUploadedAndASessionIsPlanned(t *testing.T) {
	t.Parallel()
	h := newService(t)
	var files control.Workspace
	h.call("POST", "/workspaces?team=web", worktest.Tar(t, map[string]string{
		"design.md": "# Design\n", ".env": "TOKEN=x", ".gitignore": "out/\n", "out/a.bin": "x", ".git/config": "x",
	})).read(t, &files)
	require.Equal(t, 2, files.Files)
	require.Equal(t, []string{".env"}, files.Private)
	require.Equal(t, []string{"out/"}, files.Ignored)
	stored, err := h.base.Store.Content.Manifest(t.Context(), files.Workspace)
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", "design.md"}, stored.Paths())

	var plan control.Plan
	in := map[string]any{
		"team": map[string]any{"file": soloTeam}, "from": "build",
		"supplied": map[string]any{"design": files.Workspace},
	}
	h.call("POST", "/plan", in).read(t, &plan)
	require.Equal(t, session.SupplyIt, plan.Phases[0].Personas[0].Action)
	require.Equal(t, session.RunIt, plan.Phases[1].Personas[0].Action)

	for field, wrong := range map[string]map[string]any{
		"workspace":   {"workspace": "no digest"},
		"supplied":    {"supplied": map[string]any{"design": "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}},
		"from":        {"from": "nowhere"},
		"only":        {"only": []string{"build"}, "until": "build"},
		"session":     {"session": "../x"},
		"team":        {"team": map[string]any{"file": "version: 1\nname: web\n"}},
		"pause_after": {"pause_after": []string{"biuld"}},
	} {
		body := map[string]any{"team": map[string]any{"file": soloTeam}}
		for k, v := range wrong {
			body[k] = v
		}
		got := h.call("POST", "/plan", body)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, "%s: %s", field, got.body)
		var problem struct{ Errors []struct{ Location string } }
		require.NoError(t, json.Unmarshal(got.body, &problem))
		require.Equal(t, field, problem.Errors[0].Location, string(got.body))
	}
	events, err := control.Access{Base: h.base}.Events(access.With(t.Context(), h.actor),
		access.EventFilter{Action: "workspace.upload"})
	require.NoError(t, err)
	require.Len(t, events.Events, 1)
}

// TestHostileArchives leaves out what leads out of the tree, and refuses what is no archive.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	h := newService(t)
	for name, says := range map[string]string{
		"../out": "must stay inside the tree", "/etc/passwd": "the path is absolute",
		"a\x01b": "control characters",
	} {
		got := h.call("POST", "/workspaces?team=web", worktest.Tar(t, map[string]string{name: "x", "kept": "x"}))
		files := read[control.Workspace](t, got)
		require.Equal(t, 1, files.Files)
		require.Len(t, files.Odd, 1)
		require.Contains(t, files.Odd[0], says)
		require.NotContains(t, string(got.body), "maestro-upload", "nobody learns of directories of the server")
	}
	got := h.call("POST", "/workspaces?team=web", []byte("no archive at all"))
	require.Equal(t, http.StatusUnprocessableEntity, got.status, string(got.body))
	require.Contains(t, string(got.body), "make a tar, tar.gz or zip file")
	h.actor = access.Actor{Name: "eve", Roles: access.Roles{"web": {access.RoleViewer}, "api": {access.RoleOperator}}}
	require.Equal(t, http.StatusForbidden, h.call("POST", "/workspaces?team=web", nil).status)
}

// TestADigestIsNoPermission: an operator of one team names files of another one, and ids of its sessions.
func TestADigestIsNoPermission(t *testing.T) {
	t.Parallel()
	h := newService(t)
	var theirs, ours control.Workspace
	h.call("POST", "/workspaces?team=other", worktest.Tar(t, map[string]string{"secret.txt": "theirs"})).read(t, &theirs)
	h.call("POST", "/workspaces?team=web", worktest.Tar(t, map[string]string{"a.txt": "ours"})).read(t, &ours)
	roles, err := access.ParseRoles("operator:web")
	require.NoError(t, err)
	ctx := access.With(t.Context(), access.Actor{Name: "olga@example.com", Via: access.ViaOIDC, Roles: roles})
	starts := control.Starts{Base: h.base}
	refusal := func(in control.NewSession) string {
		in.Team = control.TeamInput{File: soloTeam}
		if _, err := starts.Preview(ctx, in); err != nil {
			return err.Error()
		}
		return ""
	}
	nobodys := spec.Digest(strings.Repeat("0", len(theirs.Workspace)))
	digest := func(text string, of spec.Digest) string { return strings.ReplaceAll(text, of.Short(), "DIGEST") }
	for name, with := range map[string]func(spec.Digest) control.NewSession{
		"the files at the start": func(d spec.Digest) control.NewSession { return control.NewSession{Workspace: d} },
		"supplied work": func(d spec.Digest) control.NewSession {
			return control.NewSession{Supplied: map[string]spec.Digest{"design": d}}
		},
	} {
		got := refusal(with(theirs.Workspace))
		require.Contains(t, got, "upload the files again", name)
		require.Equal(t, digest(refusal(with(nobodys)), nobodys), digest(got, theirs.Workspace), "%s: whether they exist is not told",
			name)
	}
	require.Empty(t, refusal(control.NewSession{Workspace: ours.Workspace}))
	for team, text := range map[string]string{"web": "", "other": "upload the files again"} {
		h.session("of-"+team, team, time.Now(), nil)
		h.checkpoint("of-"+team, map[string]string{"made-by.txt": team})
		e, err := h.base.Store.State.Execution(t.Context(), session.Key{Namespace: "default", Session: "of-" + team})
		require.NoError(t, err)
		c, err := h.base.Store.Checkpoint(t.Context(), e.Checkpoint)
		require.NoError(t, err)
		require.Contains(t, refusal(control.NewSession{Workspace: c.Tree}), text, team)
		if text == "" {
			require.Empty(t, refusal(control.NewSession{Workspace: c.Tree}), "who sees a session's files may start one with them")
		}
	}
	for _, theirs := range []string{"other-1", "web-shop-1", "web-shop.1", "web-shop-20260301-abcdef", "website", "webs.1", "web"} {
		require.Contains(t, refusal(control.NewSession{Session: theirs}), "has to begin with web-", theirs)
	}
	for _, ours := range []string{"", "web-1", "web-url_shortener", "web.url-shortener.2", launch.NewID("web", time.Now())} {
		require.Empty(t, refusal(control.NewSession{Session: ours}), ours)
	}
}
