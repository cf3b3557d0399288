package system

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

// sound holds what a crash has left against what is promised: every execution
// is either the one that counts or was cut off with its worker (which may also have been lost after its end), no attempt was
// used up, no process works on, and all that is stored verifies.
func (w *world) sound(s session.Status) {
	w.t.Helper()
	executed := w.executed(s.Session)
	for _, p := range s.Phases {
		for _, a := range p.Assignments {
			require.Equal(w.t, 1, a.Attempts, "%s/%s used up no attempt", p.Name, a.Persona)
			require.Equal(w.t, 1, a.Rounds, "%s/%s", p.Name, a.Persona)
			require.GreaterOrEqual(w.t, executed[p.Name], 1, "%s/%s: executions", p.Name, a.Persona)
			require.LessOrEqual(w.t, executed[p.Name], 1+a.LostWorkers, "%s/%s: executions", p.Name, a.Persona)
		}
	}
	require.Empty(w.t, w.agents())
	w.must("checkpoints", "verify", "--all")
}

// processes are those of the host: their command lines, by process id.
func processes() map[int]string {
	found := map[int]string{}
	for _, p := range proctree.All() {
		if command, err := os.ReadFile(filepath.Join(p.Dir(), "cmdline")); err == nil && len(command) > 0 {
			found[p.PID] = strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// agents lists the processes at work in the store's directories, with what watches them: their
// working directory lies there or, in a room, a directory that is mounted there.
func (w *world) agents() (found []string) {
	w.t.Helper()
	state, err := filepath.EvalSymlinks(w.state)
	require.NoError(w.t, err)
	for pid, command := range processes() {
		of := filepath.Join("/proc", strconv.Itoa(pid))
		dir, _ := os.Readlink(filepath.Join(of, "cwd"))
		mounted, _ := os.ReadFile(filepath.Join(of, "mountinfo"))
		if strings.HasPrefix(dir, state) ||
			strings.Contains(string(mounted), filepath.Join(filepath.Base(filepath.Dir(w.dir)), filepath.Base(w.dir), "state")+"/") {
			found = append(found, strconv.Itoa(pid)+" "+command)
		}
	}
	return found
}
