package system

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
)

// sound holds what a crash has left against what is promised: every execution
// is either the one that counts or was cut off with its worker, no attempt was
// used up, no process works on, and all that is stored verifies.
func (w *world) sound(s session.Status) {
	w.t.Helper()
	executed := w.executed(s.Session)
	for _, p := range s.Phases {
		for _, a := range p.Assignments {
			require.Equal(w.t, 1, a.Attempts, "%s/%s used up no attempt", p.Name, a.Persona)
			require.Equal(w.t, 1, a.Rounds, "%s/%s", p.Name, a.Persona)
			require.Equal(w.t, executed[p.Name], 1+a.LostWorkers, "%s/%s: executions", p.Name, a.Persona)
		}
	}
	require.Empty(w.t, w.agents())
	w.must("checkpoints", "verify", "--all")
}

// agents lists the processes at work in the store's directories, with what
// watches them.
func (w *world) agents() (found []string) {
	w.t.Helper()
	state, err := filepath.EvalSymlinks(w.state)
	require.NoError(w.t, err)
	processes, err := os.ReadDir("/proc")
	require.NoError(w.t, err)
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		if dir, err := os.Readlink(filepath.Join("/proc", p.Name(), "cwd")); err == nil && strings.HasPrefix(dir, state) {
			command, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "cmdline"))
			found = append(found, p.Name()+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}
