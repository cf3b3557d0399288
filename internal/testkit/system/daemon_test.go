package system

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// daemonScript is an agent that at first leaves a daemon in a session of its own, which ends
// the agent's shim and worker and continues writing into the tree, for two minutes at most.
const daemonScript = `
if [ -e LEDGER/daemon.pid ]; then
  ls -A > seen.txt
  echo done > work.txt
  exit 0
fi
shim=$PPID
worker=$(sed 's/.*) //' /proc/$shim/stat | cut -d' ' -f2)
tree=$(pwd)
env -i setsid sh -c "
  exec >> $tree/daemon.txt 2>&1 < /dev/null
  trap '' TERM HUP INT
  echo \$\$ > LEDGER/daemon.pid
  END
  i=0
  while [ \$i -lt 2400 ]; do
    i=\$((i + 1))
    echo late
    echo late > $tree/late-\$i
    echo late > $tree/work.txt
    sleep 0.05
  done
" &
exec sleep 600
`

// TestADaemonOfALostAttemptIsEnded has a daemon continue writing where a lost attempt was at
// work: it is ended before the next one begins, and nothing that it wrote is recorded.
func TestADaemonOfALostAttemptIsEnded(t *testing.T) {
	t.Parallel()
	for sessionID, end := range map[string]string{
		"shim-killed":       "kill -KILL $worker $shim",
		"shim-stopped":      "kill -STOP $shim; kill -KILL $worker",
		"shim-kept-stopped": "kill -KILL $worker; (while kill -STOP $shim; do :; done) &",
	} {
		t.Run(sessionID, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.without = proctest.Landlock // which keeps signals from shim and worker
			script := w.write("agent.sh", strings.NewReplacer("LEDGER", w.ledger("")).Replace(strings.ReplaceAll(daemonScript, "END", end)))
			w.write("agents.yaml", `{version: 1, isolation: none, agents: {bad: {kind: command, argv: [/bin/sh, "`+script+`"]}}}`)
			teamFile := w.write("team.yaml", `{version: 1, name: bad, help: {mode: fail}, personas: {dev: {role: r, agent: bad, instructions: do}},
				phases: [{name: one, personas: [dev], produces: [work.txt]}]}`)
			worker := w.startWorker()
			w.must("run", teamFile, "leave a daemon", "--session", sessionID)
			w.dies(worker)
			daemon := w.daemon()
			if sessionID == "shim-killed" {
				require.True(t, daemon.writes(), "nothing has ended it yet")
			}

			w.startWorker()
			s := w.completes(sessionID)
			require.Equal(t, 1, s.Phases[0].Assignments[0].LostWorkers)
			require.False(t, daemon.writes(), "the daemon lives on")
			out := filepath.Join(w.dir, "out")
			w.must("artifacts", "get", sessionID, "--out", out)
			result := map[string]string{}
			for _, name := range w.files(out) {
				data, err := os.ReadFile(filepath.Join(out, name))
				require.NoError(t, err)
				result[name] = string(data)
			}
			require.Equal(t, map[string]string{"work.txt": "done\n", "seen.txt": "seen.txt\n"}, result)
		})
	}
}

// files lists what is in a directory.
func (w *world) files(dir string) (names []string) {
	w.t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(w.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// daemon is a process by its number, which is ended with the test.
type daemon int

// daemon finds the process that daemonScript has left.
func (w *world) daemon() daemon {
	w.t.Helper()
	data, err := os.ReadFile(w.ledger("daemon.pid"))
	require.NoError(w.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		if daemon(pid).writes() {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	})
	return daemon(pid)
}

// writes reports whether the daemon is alive.
func (d daemon) writes() bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(int(d)) + "/cmdline")
	return err == nil && strings.Contains(string(line), "daemon.txt")
}
