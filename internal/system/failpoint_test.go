package system

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
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
	shared := newWorld(t)
	for _, c := range []struct{ session, failpoint string }{
		{"result-recorded-not-completed", "recorded, not completed@3"},
		{"advance-wrote-nothing", "advance before its checkpoint@2"},
		{"advance-wrote-all", "advance after its checkpoint@2"},
		{"checkpoint-not-copied", "checkpoint stored, not copied@3"},
		{"half-a-checkpoint", "/checkpoint_@2"},
		{"half-of-the-first-blob", "/blobs/@1"},
		{"half-an-assignments-blob", "/blobs/@6"},
		{"half-a-later-blob", "/blobs/@11"},
		{"half-a-record", "/assignments/@3"},
		{"half-a-mirrored-state", "/execution_state.json@4"},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			w := shared.besides(t)
			teamFile := w.withHoldingAgent()
			worker := w.startFragile(c.failpoint)
			w.start(filepath.Join(programs, "starter"), "run", teamFile, "survive", "--session", c.session)
			w.dies(worker)
			require.Contains(t, worker.output.String(), "failpoint: ")
			w.startWorker()
			s := w.ends(c.session)
			require.Equal(t, team.Completed, s.Status, "%+v", s)
			w.sound(s)
		})
	}
}
