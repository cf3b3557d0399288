package system

import (
	"encoding/json"
	"os"
	"os/exec"
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

// states is where each phase stands.
func states(s session.Status) map[string]session.State {
	out := map[string]session.State{}
	for _, p := range s.Phases {
		out[p.Name] = p.Status
	}
	return out
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

// TestWhatIsStaleRunsAgain edits, forces and forks a finished session.
func TestWhatIsStaleRunsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.startWorker()
	w.must("run", teamFile, "all of it", "--session", "s")
	w.completes("s")
	first := w.executed("s")

	// A person's edit: what builds on it runs again.
	edited := filepath.Join(w.dir, "edited")
	w.must("artifacts", "get", "s", "--out", edited)
	require.Equal(t, 2, w.maestro("resume", "s", "--edit", "testing="+edited).code, "nothing was edited")
	require.NoError(t, os.WriteFile(filepath.Join(edited, "testing.md"), []byte("by hand\n"), 0o600))
	doc := w.begin("resume", "s", "--edit", "testing="+edited)
	require.Equal(t, "depends on testing, which was edited", doc.reason("deployment"), "%+v", doc.Plan)
	s := w.completes("s")
	require.Equal(t, session.Supplied, states(s)["testing"])
	require.Equal(t, first["testing"], w.executed("s")["testing"])
	require.Equal(t, 2, w.executed("s")["deployment"])
	out := filepath.Join(w.dir, "out")
	w.must("artifacts", "get", "s", "testing.md", "--out", out)
	data, err := os.ReadFile(filepath.Join(out, "testing.md"))
	require.NoError(t, err)
	require.Equal(t, "by hand\n", string(data))
	require.Equal(t, int64(66), s.Usage.Tokens(), "the deployment that ran again was paid twice")

	// A fork: the original is not touched.
	before := w.must("status", "s", "-o", "json")
	doc = w.begin("fork", "s", "--from", "testing", "--as", "fork")
	require.Equal(t, "forced", doc.reason("testing"), "%+v", doc.Plan)
	require.Equal(t, session.Restore, doc.plan()["implementation"])
	s = w.completes("fork")
	require.Equal(t, int64(22), s.Usage.Tokens(), "a fork pays for what it runs")
	require.Equal(t, "s", s.Origin.Session)
	require.JSONEq(t, before, w.must("status", "s", "-o", "json"))
	w.must("checkpoints", "verify", "--all")
	require.Equal(t, 2, w.maestro("fork", "s", "--from", "testing", "--as", "fork").code, "the id is taken")
}

// TestOutsideOrchestrator runs the script that docs/resuming.md shows.
func TestOutsideOrchestrator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.startWorker()
	page, err := os.ReadFile("../../../docs/resuming.md")
	require.NoError(t, err)
	_, script, found := strings.Cut(string(page), "```sh\n#!/bin/sh\n# orchestrate.sh")
	require.True(t, found)
	script, _, _ = strings.Cut(script, "```")
	require.NoError(t, os.Symlink(filepath.Join(programs, "maestro"), filepath.Join(w.dir, "maestro")))
	cmd := exec.Command(w.write("orchestrate.sh", "#!/bin/sh\n# orchestrate.sh"+script), teamFile, "one by one", "s", "requirements",
		"design", "implementation")
	cmd.Env = append(w.environment(), "PATH="+w.dir+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	require.Equal(t, map[string]int{"requirements": 1, "design": 1, "implementation": 1}, w.executed("s"))
	require.Contains(t, string(out), `"action": "restore"`)
	require.Contains(t, string(out), `"run": 3`)
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
