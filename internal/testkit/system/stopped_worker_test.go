package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// stopped waits until a process is stopped, as by SIGSTOP.
func (w *world) stopped(p *process) {
	w.t.Helper()
	w.eventually("the worker stops", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		_, after, _ := strings.Cut(string(stat), ") ")
		return err == nil && strings.HasPrefix(after, "T")
	})
}

// TestALateWorkerChangesNothing stops a worker while it writes what is between two
// phases, has another one finish the session, and lets the first continue: it leaves what
// the session has written since as it is.
func TestALateWorkerChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ session, failpoint string }{
		{"late-checkpoint", "stop:/checkpoint_@3"},
		{"late-state", "stop:/execution_state.json@2"},
		{"late-advance", "stop:checkpoint stored, no row@2"},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			w := newWorldAlone(t)
			teamFile := w.withHoldingAgent()
			late := w.startFragile(c.failpoint)
			w.start(filepath.Join(programs, "maestro"), "run", teamFile, "survive", "--session", c.session)
			w.stopped(late)
			w.server.kill() // or it would continue handing work to the polls of the stopped worker
			w.startServer()
			w.startWorker()
			s := w.completes(c.session)
			w.must("checkpoints", "verify", "--all")
			before := []string{w.must("status", c.session, "-o", "json"), w.must("checkpoints", "list", c.session, "-o", "json")}

			late.signal(syscall.SIGCONT)
			w.eventually("the late worker has done what it was at", func() bool {
				left, err := filepath.Glob(filepath.Join(w.state, "tmp", "put-*"))
				return err == nil && len(left) == 0
			})
			late.signal(syscall.SIGTERM)
			w.dies(late)
			after := []string{w.must("status", c.session, "-o", "json"), w.must("checkpoints", "list", c.session, "-o", "json")}
			require.Equal(t, before, after)
			require.Contains(t, w.must("checkpoints", "verify", "--all"), "all intact")
			documents := w.documents(c.session) // others could not write them while the late worker did
			require.Contains(t, documents["execution_state.json"], `"status":"completed"`)
			require.NotEmpty(t, documents["checkpoint_init.json"])
			for _, phase := range s.Phases {
				require.NotEmpty(t, documents["checkpoint_"+phase.Name+".json"], phase.Name)
			}
			w.sound(s)
		})
	}
}

// documents are those that the store has of a session.
func (w *world) documents(sessionID string) map[string]string {
	w.t.Helper()
	documents := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(w.state, "sessions", w.namespace, sessionID, "*.json"))
	require.NoError(w.t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(w.t, err)
		documents[filepath.Base(path)] = string(data)
	}
	require.NotEmpty(w.t, documents)
	return documents
}
