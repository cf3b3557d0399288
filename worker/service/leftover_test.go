package service_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
)

// TestProcessesOfALostAttemptAreEnded before another one begins: a process that the agent of a killed worker has left
// is in the assignment's directories.
func TestProcessesOfALostAttemptAreEnded(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Isolation: agent.IsolationNone, Agents: shells(map[string]string{"a": "true"})}, standOptions{})
	dirs := workdir.New(workdir.Options{Root: workdir.DefaultRoot(s.store.Dir())})
	dir, err := dirs.Make(s.key(sessionID), spec.AssignmentID{Phase: "one", Persona: "a"})
	require.NoError(t, err)
	left := exec.Command("sleep", "60")
	left.Env = []string{"HOME=" + dir.Home}
	require.NoError(t, left.Start())
	_, err = s.ends(s.start(sessionID, team(phase("one", "a"))))
	require.NoError(t, err)
	require.EqualError(t, left.Wait(), "signal: killed")
}
