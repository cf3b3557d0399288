package system

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startFragile starts a worker that dies where the failpoint says.
func (w *world) startFragile(failpoint string) *process {
	w.t.Helper()
	return w.serves(w.startWith([]string{"MAESTRO_FAILPOINT=" + failpoint}, filepath.Join(programs, fragileWorker), "--drain", "1s"))
}

// TestWorkerKilledBetweenTwoLines kills a worker at the points where a crash
// could do most harm, and lets another one finish.
func TestWorkerKilledBetweenTwoLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ session, failpoint string }{
		{"call-begun", "call begun@2"},
		{"call-booked", "call booked@1"},
		{"result-recorded-not-completed", "recorded, not completed@3"},
		{"checkpoint-without-a-row", "checkpoint stored, no row@3"},
		{"checkpoint-not-mirrored", "checkpoint stored, not mirrored@3"},
		{"half-a-checkpoint", "/checkpoint_@2"},
		{"half-of-the-first-blob", "/blobs/@1"},
		{"half-an-assignments-blob", "/blobs/@6"},
		{"half-a-later-blob", "/blobs/@11"},
		{"agent-ended-not-collected", "agent ended, not collected@2"},
		{"collected-not-checked", "collected, not checked@2"},
		{"layers-filled", "layers: filled@2"},
		{"layers-published", "layers: published@1"},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(c.session, "layers") {
				permitsRooms(t)
			}
			w := newWorld(t)
			teamFile := w.withHoldingAgent()
			worker := w.startFragile(c.failpoint)
			w.start(filepath.Join(programs, "maestro"), "run", teamFile, "survive", "--session", c.session)
			w.dies(worker)
			require.Contains(t, worker.output.String(), "failpoint: ")
			w.startWorker()
			s := w.completes(c.session)
			w.sound(s)
		})
	}
}
