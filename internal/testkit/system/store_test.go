package system

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// earlyAgent has done everything by the time that it holds.
const earlyAgent = agentBegins + agentReports + agentHolds

// withEarlyAgent is withHoldingAgent with the other agent.
func (w *world) withEarlyAgent() (teamFile string) {
	teamFile = w.withHoldingAgent()
	w.write("holding.sh", earlyAgent)
	return teamFile
}

// onSmallDisk gives the store a file system of its own, with room as the options for
// tmpfs say. Where this process may not mount, the test is skipped.
func (w *world) onSmallDisk(room string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(w.state, 0o700))
	if err := syscall.Mount("maestro-test", w.state, "tmpfs", 0, "mode=0700,"+room); err != nil {
		w.t.Skipf("a file system cannot be mounted here: %s", err)
	}
	w.t.Cleanup(func() { require.NoError(w.t, syscall.Unmount(w.state, syscall.MNT_DETACH)) })
}

// fill writes a file until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<16); len(block) > 0; block = block[:len(block)/2] {
		for err == nil {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		err = nil
	}
	return nil
}

// TestAStoreThatCannotBeWrittenIsWaitedFor takes the store away in the middle of
// an attempt: the session says what it waits for, and when the store is back it
// continues, without a further attempt.
func TestAStoreThatCannotBeWrittenIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		disk        bool
		spoil, mend func(w *world) error
	}{
		"full": {
			disk: true,
			spoil: func(w *world) error { // the reserve is not made again on a full disk
				return errors.Join(fill(filepath.Join(w.state, "filler")), os.Remove(filepath.Join(w.state, ".reserve")),
					fill(filepath.Join(w.state, "more")))
			},
			mend: func(w *world) error {
				return errors.Join(os.Remove(filepath.Join(w.state, "filler")), os.Remove(filepath.Join(w.state, "more")))
			},
		},
		"read-only": {
			disk: true,
			spoil: func(w *world) error { // a second view of the disk, over the first
				return errors.Join(
					syscall.Mount(w.state, w.state, "", syscall.MS_BIND, ""),
					syscall.Mount("", w.state, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
			},
			mend: func(w *world) error { return syscall.Unmount(w.state, syscall.MNT_DETACH) },
		},
		"not to be entered": {
			spoil: func(w *world) error {
				blobs := filepath.Join(w.state, "blobs")
				return errors.Join(os.Rename(blobs, blobs+".away"), os.WriteFile(blobs, nil, 0o600))
			},
			mend: func(w *world) error {
				blobs := filepath.Join(w.state, "blobs")
				return errors.Join(os.Remove(blobs), os.Rename(blobs+".away", blobs))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.disk {
				w.onSmallDisk("size=8m")
			}
			teamFile := w.withEarlyAgent()
			w.startWorker()
			w.hold("design")
			w.must("run", teamFile, "wait for it", "--session", "waits")
			w.held("waits", "design")
			require.NoError(t, c.spoil(w))
			w.release("design")
			require.Eventually(t, func() bool {
				return strings.Contains(w.must("status", "waits"), "resource_error: waiting for the store: ")
			}, limit, 250*time.Millisecond, "the session says what it waits for")
			require.NoError(t, c.mend(w))
			s := w.completes("waits")
			for _, p := range s.Phases {
				require.Equal(t, 1, p.Assignments[0].Attempts, "%s: waiting uses up nothing", p.Name)
			}
			require.Equal(t, map[string]int{
				"requirements": 1, "design": 1, "implementation": 1, "testing": 1, "deployment": 1,
			}, w.executed("waits"))
			w.must("checkpoints", "verify", "--all")
		})
	}
}

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

// begin runs a command that starts a session, and returns its document and what that says of each phase of one persona.
func (w *world) begin(args ...string) (doc control.Started, actions map[string]session.PlanAction, reasons map[string]string) {
	w.t.Helper()
	require.NoError(w.t, json.Unmarshal([]byte(w.must(append(args, "-o", "json")...)), &doc))
	actions, reasons = map[string]session.PlanAction{}, map[string]string{}
	for _, p := range doc.Plan {
		actions[p.Phase], reasons[p.Phase] = p.Action, p.Reason
	}
	return doc, actions, reasons
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

	doc, actions, _ := w.begin("resume", "lost")
	require.Equal(t, 2, doc.Run)
	require.Equal(t, map[string]session.PlanAction{
		"requirements": session.Restore, "design": session.Restore, "implementation": session.RunIt, "testing": session.RunIt,
		"deployment": session.RunIt,
	}, actions, "%+v", doc.Plan)
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
	_, actions, reasons := w.begin("resume", "s")
	require.Contains(t, reasons["testing"], "its work is damaged: the content of testing.md")
	require.Equal(t, session.Restore, actions["implementation"])
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
