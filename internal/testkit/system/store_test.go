package system

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
