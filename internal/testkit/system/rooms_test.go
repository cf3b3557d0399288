package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
)

// builder is an agent that leaves the wrong work first, with files that a check must not see.
const builder = `#!/bin/sh
ledger=$1
echo x >> "$ledger/built"
mkdir -p node_modules && echo dep >> node_modules/dep
echo cheat > "$HOME/pass"; echo cheat > "$TMPDIR/pass"
rm -f old.txt; mv docs papers
if [ "$(wc -l < "$ledger/built")" -eq 1 ]; then echo bad > work.txt; exit 0; fi
cp node_modules/dep "$ledger/kept"
echo more >> go.mod
echo good > work.txt
`

const inRooms = `version: 1
isolation: required
MOUNTS
agents:
  builder: {kind: command, argv: [./builder.sh, LEDGER]}
  left: {kind: command, argv: [sh, -c, 'pwd > left.txt; cat work.txt >> left.txt']}
  right: {kind: command, argv: [sh, -c, 'ls > right.txt']}
  holding: {kind: command, argv: [sh, -c, 'echo half > half.txt; touch LEDGER/holding; while [ -e LEDGER/hold ]; do sleep 0.05; done; echo whole > whole.txt']}
checks:
  good: {argv: [sh, -c, 'ls -A "$HOME" "$TMPDIR" | grep pass && exit 3; ls > LEDGER/checked; grep -q good work.txt && echo fine > report.txt && echo more >> work.txt'], keep: [report.txt]}
  merged: {argv: [sh, -c, 'cat left.txt right.txt report.txt'], network: none}
`

const roomsTeam = `version: 1
name: rooms
personas:
  builder: {role: r, agent: builder, instructions: x, checks: [good]}
  left: {role: r, agent: left, instructions: x}
  right: {role: r, agent: right, instructions: x}
  last: {role: r, agent: holding, instructions: x}
phases:
  - {name: build, personas: [builder], produces: [work.txt], protected: [go.mod]}
  - {name: both, personas: [left, right], checks: [merged]}
  - {name: last, personas: [last], produces: [whole.txt]}
`

// permitsRooms skips a test where the kernel permits no rooms.
func permitsRooms(t *testing.T) {
	t.Helper()
	try := &procgroup.Launcher{Secrets: secrets.New(nil), MaxOutput: 1 << 20, Threads: procgroup.Threads{Each: 100}}
	if err := try.TryRoom(nil); err != nil {
		mounts := exec.CommandContext(t.Context(), "unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/tmp").Run()
		require.Error(t, mounts, "this host permits namespaces, but no rooms: %v", err)
		t.Skipf("this host permits no rooms: %v", err)
	}
}

// TestASessionInRooms goes through a session whose agents and checks work in rooms: a failed
// attempt, personas side by side, a merge, and a worker that is killed.
func TestASessionInRooms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	permitsRooms(t)
	ledger := filepath.Dir(w.ledger("x"))
	require.NoError(t, os.Chmod(w.write("builder.sh", builder), 0o755))
	w.write("agents.yaml", strings.NewReplacer("LEDGER", ledger, "MOUNTS", w.mounts()).Replace(inRooms))
	workspace := filepath.Join(w.dir, "workspace")
	for path, text := range map[string]string{
		"old.txt": "old", "docs/a.md": "a", ".gitignore": "node_modules/\n",
		"go.mod": "module x\n",
	} {
		w.write(filepath.Join("workspace", path), text)
	}
	require.NoError(t, os.WriteFile(w.ledger("hold"), nil, 0o600))
	worker := w.startWorker()
	w.must("run", w.write("team.yaml", roomsTeam), "build it", "--session", "rooms", "--workspace", workspace)
	w.eventually("the last agent is at work", func() bool { return w.exists("holding") })
	worker.kill()
	require.NoError(t, os.Remove(w.ledger("holding")))
	w.startWorker()
	w.eventually("the last agent is at work again", func() bool { return w.exists("holding") })
	require.NoError(t, os.Remove(w.ledger("hold")))
	s := w.completes("rooms")

	build := s.Phases[0].Assignments[0]
	require.Equal(t, 2, build.Attempts, "the check refused the first work")
	require.Contains(t, build.Summary, "changes to protected files are not used: go.mod")
	out := filepath.Join(w.dir, "out")
	w.must("artifacts", "get", "rooms", "--out", out)
	for path, want := range map[string]string{
		"work.txt": "good\n", "report.txt": "fine\n", "papers/a.md": "a", "left.txt": "/workspace\ngood\n", "whole.txt": "whole\n",
		"half.txt": "half\n",
	} {
		data, err := os.ReadFile(filepath.Join(out, path))
		require.NoError(t, err, path)
		require.Equal(t, want, string(data), path)
	}
	require.NotContains(t, w.must("artifacts", "list", "rooms"), "node_modules")
	require.NotContains(t, w.must("artifacts", "list", "rooms"), "go.mod")
	for name, lacks := range map[string]string{"checked": "node_modules", "kept": "cheat"} {
		data, err := os.ReadFile(w.ledger(name))
		require.NoError(t, err)
		require.NotContains(t, string(data), lacks)
	}
	data, err := os.ReadFile(w.ledger("kept"))
	require.NoError(t, err)
	require.Equal(t, "dep\ndep\n", string(data), "the second attempt has what the first left, ignored files too")
	w.must("artifacts", "diff", "rooms")
	w.must("checkpoints", "verify", "--all")
}

// TestAnAgentThatTakesTooMuchFails and the worker goes on: with a file that it has open and has
// removed, with more files than it may have, with memory, and with output.
//
//nolint:paralleltest // what others write to the disk at the same time, or remove, counts
func TestAnAgentThatTakesTooMuchFails(t *testing.T) {
	for _, isolation := range []string{agent.IsolationNone, agent.IsolationRequired} {
		for limit, c := range map[string]struct{ most, script string }{
			"disk_bytes":   {"50MB", "exec 9> big; rm big; head -c 300000000 /dev/zero >&9; sleep 100"},
			"disk_files":   {"500", "mkdir d; cd d; seq 3000 | xargs touch; sleep 100"},
			"memory":       {"50MB", "head -c 200000000 /dev/zero | tail -c 150000000 | sleep 100"},
			"output_bytes": {"1MB", "yes"},
		} {
			t.Run(isolation+" "+limit, func(t *testing.T) {
				if isolation == agent.IsolationRequired {
					permitsRooms(t)
				}
				w := newWorld(t)
				w.write("agents.yaml", "version: 1\nisolation: "+isolation+"\nlimits: {"+limit+": "+c.most+`}
agents: {much: {kind: command, argv: [/bin/sh, -c, '`+c.script+`']}}
`)
				w.startWorker()
				w.must("run", w.write("team.yaml",
					`{version: 1, name: much, help: {mode: fail}, retry: {attempts: 1, rounds: 1, initial: 10ms}, personas: {dev: {role: r, agent: much, instructions: do}},
					phases: [{name: one, personas: [dev]}]}`), "take it", "--session", "much")
				failed := w.ends("much").Phases[0].Assignments[0].Failures
				require.Len(t, failed, 1)
				require.Equal(t, failures.InvalidOutput, failed[0].Category)
				require.Contains(t, failed[0].Message, "limits."+limit)
				require.Empty(t, w.agents())
			})
		}
	}
}
