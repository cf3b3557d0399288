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
// could do most harm to what is on disk, and lets another one finish. The simulator has the others.
func TestWorkerKilledBetweenTwoLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ session, failpoint string }{
		{"call-booked", "call booked@1"},
		{"checkpoint-not-mirrored", "checkpoint stored, not mirrored@3"},
		{"half-an-assignments-blob", "/blobs/@6"},
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
