package httpapi_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// checkpoint gives a session a checkpoint after its design, with files that were added.
func (h *service) checkpoint(id string, files map[string]string) {
	h.t.Helper()
	ctx, content := h.t.Context(), h.base.Store.Content
	before, err := content.PutManifest(ctx, cas.Manifest{})
	require.NoError(h.t, err)
	m := cas.Manifest{}
	for path, text := range files {
		name, err := content.PutBlob(ctx, []byte(text))
		require.NoError(h.t, err)
		m[path] = cas.Entry{SHA256: name, Size: int64(len(text))}
	}
	after, err := content.PutManifest(ctx, m)
	require.NoError(h.t, err)
	team, err := json.Marshal(spec.Team{Name: "web", Phases: []spec.Phase{{Name: "design", Personas: []string{"ann"}}}})
	require.NoError(h.t, err)
	blob, err := content.PutBlob(ctx, team)
	require.NoError(h.t, err)
	key := session.Key{Namespace: "default", Session: id}
	row, err := h.base.Store.StoreCheckpoint(ctx, key, session.Checkpoint{
		Run: 1, Team: session.Ref{Name: "web", Blob: blob}, Requirement: "Make it.", Workspace: before, CurrentPhase: "design",
		Tree:        after,
		Assignments: []session.CheckpointAssignment{}, Decisions: map[string]string{}, Artifacts: []session.Artifact{},
		CreatedAt: time.Now(),
	})
	require.NoError(h.t, err)
	require.NoError(h.t, h.base.Store.State.PutCheckpoints(ctx, "web", row))
}

func TestASessionsFilesAreServed(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), func(e *session.Execution) { e.Status.Status = session.Failed })
	h.checkpoint("one", map[string]string{"docs/<b>.html": "<script>", "a.txt": "one\n"})

	diff := read[control.Diff](t, h.call("GET", "/sessions/one/diff?path=a.txt&path=docs", nil))
	require.Len(t, diff.Files, 2)
	one := read[control.FileDiff](t, h.call("GET", "/sessions/one/diff/file?path=a.txt", nil))
	require.Equal(t, "one\n", one.New.Text)

	file := h.call("GET", "/sessions/one/file?path=docs/%3Cb%3E.html", nil)
	require.Equal(t, "<script>", string(file.body))
	require.Equal(t, "application/octet-stream", file.header.Get("Content-Type"), "no browser takes it for a page")
	require.Equal(t, "nosniff", file.header.Get("X-Content-Type-Options"))
	require.Equal(t, "attachment; filename=%3Cb%3E.html", file.header.Get("Content-Disposition"), "a name on each system")

	packed := h.call("GET", "/sessions/one/archive?format=zip", nil)
	archive, err := zip.NewReader(bytes.NewReader(packed.body), int64(len(packed.body)))
	require.NoError(t, err)
	require.Len(t, archive.File, 2)

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
	damage(t, h.base.Store.Dir(), cas.DigestOf([]byte("one\n")), "two\n")
	got, err := http.Get(h.url + "/sessions/one/file?path=a.txt")
	if err == nil {
		defer got.Body.Close()
		_, err = io.ReadAll(got.Body)
		if err == nil {
			require.GreaterOrEqual(t, got.StatusCode, 500)
			return
		}
	}
	require.Error(t, err)
}

func TestAResultThatIsTooLargeForABundleIsRefusedBeforeItBegins(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), nil)
	h.checkpoint("one", map[string]string{"a.txt": "one\n", "b.txt": "two\n"})
	require.Equal(t, http.StatusOK, h.call("GET", "/sessions/one/bundle", nil).status)
	damage(t, h.base.Store.Dir(), cas.DigestOf([]byte("one\n")), "")
	large := filepath.Join(h.base.Store.Dir(), filepath.FromSlash(storage.BlobKey(cas.DigestOf([]byte("one\n")))))
	require.NoError(t, os.Truncate(large, cas.DefaultFileBytes+1))
	refused := h.call("GET", "/sessions/one/bundle", nil)
	require.Equal(t, http.StatusUnprocessableEntity, refused.status)
	require.Contains(t, string(refused.body), "a file of more than 100 MiB")
}

// damage changes a blob on the disk.
func damage(t *testing.T, store string, blob spec.Digest, content string) {
	t.Helper()
	path := filepath.Join(store, filepath.FromSlash(storage.BlobKey(blob)))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}
