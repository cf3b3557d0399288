package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWorkerKilledWhileItMakesLayers kills workers in the middle of making and collecting
// layers, and lets another one finish the session.
func TestWorkerKilledWhileItMakesLayers(t *testing.T) {
	t.Parallel()
	permitsRooms(t)
	for _, c := range []struct {
		session    string
		failpoints []string
		phases     int
	}{
		{"begun", []string{"layers: begun@2"}, 3},
		{"filled-then-collected", []string{"layers: filled@2", "layers: evicted@1"}, 3},
		{"made", []string{"layers: made@3"}, 3},
		{"published", []string{"layers: published@1"}, 3},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write("agents.yaml", `{version: 1, isolation: required, agents: {coder: {kind: command, argv: [sh, -c, 'cat kept/file && rm -f gone/* && date +%N > $(date +%s%N).txt']}}}`)
			var phases strings.Builder
			for i := range c.phases {
				fmt.Fprintf(&phases, "  - {name: p%d, personas: [dev]}\n", i)
			}
			team := w.write("team.yaml", "version: 1\nname: layers\npersonas:\n  dev: {role: r, agent: coder, instructions: do}\nphases:\n"+phases.String())
			w.write("workspace/kept/file", "kept")
			w.write("workspace/gone/file", "gone")
			for i := range 30 { // a tree of which each phase changes little
				w.write(fmt.Sprintf("workspace/kept/%d", i), "kept")
			}
			for i, failpoint := range c.failpoints {
				worker := w.startFragile(failpoint)
				if i == 0 {
					w.must("run", team, "change it", "--session", c.session, "--workspace", filepath.Join(w.dir, "workspace"))
				}
				w.dies(worker)
				require.Contains(t, worker.output.String(), "failpoint: "+strings.Split(failpoint, "@")[0])
			}
			w.startWorker()
			s := w.completes(c.session)
			for _, p := range s.Phases {
				require.Equal(t, 1, p.Assignments[0].Attempts, p.Name)
			}
			require.Empty(t, w.agents())
			w.must("checkpoints", "verify", "--all")
			out := filepath.Join(w.dir, "out")
			w.must("artifacts", "get", c.session, "--out", out)
			require.NoFileExists(t, filepath.Join(out, "gone", "file"))
			written, err := filepath.Glob(filepath.Join(out, "*.txt"))
			require.NoError(t, err)
			require.Len(t, written, c.phases, "one file of each phase")
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			require.NoError(t, err)
			require.NotContains(t, string(mounts), w.dir)
			w.eventually("the next worker removes what was not finished", func() bool {
				left, err := filepath.Glob(filepath.Join(w.state, "layers", "tmp", "*"))
				return err == nil && len(left) == 0
			})
		})
	}
}
