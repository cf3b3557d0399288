package procgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// BenchmarkStart compares the processor time of a program below a shim, without a room and in one, with that of
// the program alone.
func BenchmarkStart(b *testing.B) {
	shim := filepath.Join(b.TempDir(), room.ProgramName)
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", shim, "../room/maestro-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	built, err := build.CombinedOutput()
	require.NoError(b, err, string(built))
	require.NoError(b, os.Chmod(filepath.Dir(filepath.Dir(shim)), 0o755))
	l := &Launcher{Executable: shim, Secrets: secrets.New(nil), MaxOutput: 1 << 20, Threads: Threads{Each: 1000}, MaxFile: 1 << 30}
	start := func(layout func() *room.Layout) func() {
		return func() {
			e := l.Run(b.Context(), Process{Argv: []string{"/bin/true"}, Dir: "/", Env: []string{}, Room: layout(), Timeout: time.Minute})
			require.True(b, e.EndedItself(), "%+v", e)
		}
	}
	ways := map[string]func(){
		"alone": func() { require.NoError(b, exec.CommandContext(b.Context(), "/bin/true").Run()) },
		"shim":  start(func() *room.Layout { return nil }),
	}
	if l.TryRoom(nil) == nil {
		ways["room"] = start(func() *room.Layout {
			layout := room.NewLayout(nil)
			if os.Geteuid() == 0 {
				layout.UID, layout.GID = 64100, 64100
			}
			return layout
		})
	}
	used := map[string]time.Duration{}
	starts := 0
	for b.Loop() {
		for name, way := range ways {
			before := processorTime(b)
			for range 20 {
				way()
			}
			used[name] += processorTime(b) - before
		}
		starts += 20
	}
	for name, took := range used {
		b.ReportMetric(float64(took.Microseconds())/float64(starts), name+"-µs")
		b.ReportMetric(took.Seconds()/used["alone"].Seconds(), name+"/alone")
	}
}

// processorTime is that of this process and of the children that it has waited for.
func processorTime(b *testing.B) (sum time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var use unix.Rusage
		require.NoError(b, unix.Getrusage(who, &use))
		sum += time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	return sum
}
