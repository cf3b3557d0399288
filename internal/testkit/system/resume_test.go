package system

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// started is the document that run, resume and fork print.
type started struct {
	Session string              `json:"session"`
	RunID   string              `json:"run_id"`
	Run     int                 `json:"run"`
	Plan    []session.PlanEntry `json:"plan"`
}

// begin runs a command that starts a session and returns its document.
func (w *world) begin(args ...string) started {
	w.t.Helper()
	var s started
	require.NoError(w.t, json.Unmarshal([]byte(w.must(append(args, "-o", "json")...)), &s))
	return s
}

// plan is what a document says of each phase of one persona.
func (s started) plan() map[string]session.PlanAction {
	out := map[string]session.PlanAction{}
	for _, p := range s.Plan {
		out[p.Phase] = p.Action
	}
	return out
}

func (s started) reason(phase string) string {
	for _, p := range s.Plan {
		if p.Phase == phase {
			return p.Reason
		}
	}
	return ""
}

// TestResumeOnAnEmptyCluster loses Temporal's database in the third phase: the
// session continues from the store alone, and what had finished is not done again.
func TestResumeOnAnEmptyCluster(t *testing.T) {
	t.Parallel()
	w := newWorldAlone(t)
	teamFile := w.withHoldingAgent()
	worker := w.startWorker()
	w.hold("implementation")
	w.must("run", teamFile, "survive", "--session", "lost")
	w.held("lost", "implementation")
	worker.kill()
	w.server.kill()
	for _, f := range []string{"temporal.db", "temporal.db-wal", "temporal.db-shm"} {
		_ = os.Remove(filepath.Join(w.dir, f))
	}
	w.release("implementation")
	w.startServer()
	again := w.startWorker()
	w.eventually("the worker says which session is gone", func() bool {
		return strings.Contains(again.output.String(), "maestro resume lost")
	})

	doc := w.begin("resume", "lost")
	require.Equal(t, 2, doc.Run)
	require.Equal(t, map[string]session.PlanAction{
		"requirements": session.Restore, "design": session.Restore, "implementation": session.RunIt, "testing": session.RunIt,
		"deployment": session.RunIt,
	}, doc.plan(), "%+v", doc.Plan)
	s := w.completes("lost")
	require.Equal(t, map[string]int{"requirements": 1, "design": 1, "implementation": 2, "testing": 1, "deployment": 1},
		w.executed("lost"))
	require.Equal(t, 2, s.Run)
	require.Equal(t, int64(55), s.Usage.Tokens(), "restored work keeps what it has cost")
	require.Equal(t, session.Restored, s.Phases[0].Status)
	w.must("checkpoints", "verify", "--all")
	require.Contains(t, w.maestro("resume", "lost").stderr, "nothing is left to run")
}

// TestDamageCostsOnlyWhatItHits damages the newest checkpoint and, later, a file
// of finished work: resume says what is damaged and runs no more than it must.
func TestDamageCostsOnlyWhatItHits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.startWorker()
	w.must("run", teamFile, "all of it", "--session", "s")
	s := w.completes("s")

	// The newest checkpoint, blob and copy: the one before it serves, and the
	// record of the last phase.
	w.flip(w.blob(s.Checkpoint))
	w.flip(filepath.Join(w.state, "sessions", w.namespace, "s", "checkpoint_deployment.json"))
	a := w.maestro("resume", "s", "--force", "deployment", "-o", "json")
	require.Zero(t, a.code, a.stderr)
	require.Contains(t, a.stderr, "damaged: ")
	require.Contains(t, a.stderr, "runs      deployment/worker: forced")
	s = w.completes("s")
	require.Equal(t, 2, s.Run)
	require.Equal(t, map[string]int{"requirements": 1, "design": 1, "implementation": 1, "testing": 1, "deployment": 2},
		w.executed("s"))

	// A file: the phase that left it runs again, with what builds on it.
	var files struct {
		Artifacts []session.Artifact `json:"artifacts"`
	}
	require.NoError(t, json.Unmarshal([]byte(w.must("artifacts", "list", "s", "-o", "json")), &files))
	for _, f := range files.Artifacts {
		if f.Path == "testing.md" {
			w.flip(w.blob(f.SHA256))
		}
	}
	doc := w.begin("resume", "s")
	require.Contains(t, doc.reason("testing"), "its work is damaged: the content of testing.md")
	require.Equal(t, session.Restore, doc.plan()["implementation"])
	w.completes("s")
	require.Equal(t, map[string]int{"requirements": 1, "design": 1, "implementation": 1, "testing": 2, "deployment": 3},
		w.executed("s"))
}

func (w *world) blob(name spec.Digest) string {
	return filepath.Join(w.state, "blobs", "sha256", string(name[:2]), string(name[2:]))
}

// flip changes one bit of a file.
func (w *world) flip(path string) {
	w.t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(w.t, err)
	data[len(data)/2] ^= 1
	require.NoError(w.t, os.Chmod(path, 0o600))
	require.NoError(w.t, os.WriteFile(path, data, 0o600))
}
