package system

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// left is how many bytes and files the store's disk has room for.
func (w *world) left() (bytes, files int64) {
	w.t.Helper()
	var st unix.Statfs_t
	require.NoError(w.t, unix.Statfs(w.state, &st))
	return int64(st.Bavail) * st.Bsize, int64(st.Ffree)
}

// TestAnAgentThatFillsTheDiskStopsNoOther: its attempts fail as its own, what it has left is
// removed, and the session beside it continues.
func TestAnAgentThatFillsTheDiskStopsNoOther(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]string{
		"tree":     "yes > fill",
		"tmpdir":   "dd if=/dev/zero of=$TMPDIR/fill bs=1M",
		"home":     "cat /dev/zero > $HOME/fill",
		"succeeds": "yes > fill; cat /dev/zero > ../fill; true",
		"stays":    "yes > fill; sleep 600",
		"files":    "mkdir d; cd d; n=0; while :; do n=$((n+1)); : > $n || sleep 600; done",
		"deep":     "cd $TMPDIR; for n in $(seq 300); do mkdir d && cd d; done; yes > fill; sleep 600",
		"daemon": "(setsid sh -c 'while :; do cat /dev/zero >> fill; sleep 0.1; done' > /dev/null 2>&1 &); while echo x > more; do " +
			"sleep 0.1; done",
		"removed": "exec 3> $TMPDIR/fill; rm $TMPDIR/fill; yes >&3; sleep 600",
		"large":   "head -c 40000000 /dev/urandom > fill",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.onSmallDisk("size=64m,nr_inodes=8k")
			w.write("agents.yaml", `{version: 1, `+w.mounts()+`, agents: {
				greedy: {kind: command, argv: [/bin/sh, -c, "echo x > a.txt; touch `+w.ledger("begun")+`; `+does+`"]},
				modest: {kind: command, argv: [/bin/sh, -c, "until test -e `+w.ledger("begun")+`; do sleep 0.05; done; date > a.txt"]}}}`)
			greedy := w.write("greedy.yaml",
				`{version: 1, name: greedy, help: {mode: fail}, retry: {attempts: 2, rounds: 1, initial: 10ms}, personas: {dev: {role: r, agent: greedy, instructions: do}},
				phases: [{name: one, personas: [dev]}]}`)
			modest := w.write("modest.yaml",
				`{version: 1, name: modest, retry: {attempts: 9}, personas: {dev: {role: r, agent: modest, instructions: do}},
				phases: [{name: one, personas: [dev]}, {name: two, personas: [dev]}, {name: three, personas: [dev]}]}`)
			w.startWorker()
			bytes, files := w.left()
			w.must("run", modest, "go on", "--session", "modest-"+name)
			w.must("run", greedy, "fill it", "--session", "greedy-"+name)

			w.completes("modest-" + name)
			s := w.ends("greedy-" + name)
			require.Equal(t, session.Failed, s.Status, "%+v", s)
			failed := s.Phases[0].Assignments[0].Failures
			require.Len(t, failed, 2, "%+v", s)
			for _, f := range failed {
				require.Equal(t, failures.InvalidOutput, f.Category, "%+v", f)
				require.Contains(t, f.Message, "filled the disk")
			}
			w.must("checkpoints", "prune")
			w.must("checkpoints", "verify", "--all")
			nowBytes, nowFiles := w.left()
			require.Less(t, bytes-nowBytes, int64(8<<20), "bytes that are not given back")
			require.Less(t, files-nowFiles, int64(400), "files that are not given back")
		})
	}
}
