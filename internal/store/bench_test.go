package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

const (
	benchFiles = 50_000
	benchDirs  = 1_000
	// The sizes of source trees: most files are small, a few are not.
	benchSmall, benchLarge = 4 << 10, 64 << 10
)

// benchTree writes a tree of 50,000 files in 1,000 directories, about 250 MB.
func benchTree(b *testing.B) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "tree")
	r := rand.New(rand.NewPCG(1, 1))
	content := make([]byte, benchLarge)
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	for i := range benchFiles {
		d := i % benchDirs
		path := filepath.Join(dir, fmt.Sprintf("module%02d/package%02d", d/50, d%50), fmt.Sprintf("file%05d.go", i))
		if i < benchDirs {
			require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o755))
		}
		size := r.IntN(benchSmall) + 8
		if r.IntN(20) == 0 {
			size = r.IntN(benchLarge-8) + 8
		}
		copy(content, fmt.Sprintf("%08d", i))
		require.NoError(b, os.WriteFile(path, content[:size], 0o600))
	}
	return dir
}

// BenchmarkTree compares what a session does with trees to cp -r of the same
// tree, taken in turn in the same run: 1.00 x_cp takes as long as the copy.
// Nothing is deleted before the end, because ext4 is slow to give out inodes
// that have just been freed.
func BenchmarkTree(b *testing.B) {
	dir := benchTree(b)
	top := b.TempDir()
	fresh := 0
	newDir := func() string { fresh++; return filepath.Join(top, fmt.Sprint(fresh)) }
	timed := func(run func()) time.Duration {
		syscall.Sync() // nobody pays for what another has written
		start := time.Now()
		run()
		return time.Since(start)
	}
	cp := func(b *testing.B) time.Duration {
		to := newDir()
		return timed(func() { require.NoError(b, exec.CommandContext(b.Context(), "cp", "-r", dir, to).Run()) })
	}
	// measure runs what is measured and a copy in turn; prepare is not timed.
	measure := func(name string, prepare, run func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			var ours, theirs time.Duration
			for range b.N {
				theirs += cp(b)
				if prepare != nil {
					prepare(b)
				}
				ours += timed(func() { run(b) })
			}
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "x_cp")
			b.ReportMetric(float64(ours.Milliseconds())/float64(b.N), "ms/run")
			b.ReportMetric(float64(theirs.Milliseconds())/float64(b.N), "ms/cp")
			b.ReportMetric(0, "ns/op")
		})
	}
	cp(b) // the first one reads the disk

	ctx := b.Context()
	var s *store.Store
	var manifest spec.Digest
	take := func(b *testing.B) {
		snap, err := s.Content.Snapshot(ctx, dir, cas.SnapshotOptions{})
		require.NoError(b, err)
		require.Equal(b, benchFiles, snap.Files)
		manifest = snap.Manifest
	}
	measure("FirstSnapshot", func(b *testing.B) {
		var err error
		s, err = store.Create(newDir(), options())
		require.NoError(b, err)
	}, take)
	measure("SecondSnapshot", nil, take)
	var work string
	empty := func(*testing.B) { work = newDir() }
	fill := func(b *testing.B) { require.NoError(b, s.Content.Materialise(ctx, manifest, work)) }
	measure("Materialise", empty, fill)
	measure("MaterialiseAgain", nil, fill)
	collect := func(want int) func(b *testing.B) {
		return func(b *testing.B) {
			out, err := s.Content.Collect(ctx, session.Collect{Base: manifest, Dir: work, Secrets: secrets.New([]secrets.Secret{{Value: "a secret value"}})})
			require.NoError(b, err)
			require.Len(b, out.Changed, want)
		}
	}
	measure("CollectUnchanged", nil, collect(0))
	measure("CollectHundredChanged", func(b *testing.B) {
		for i := range 100 {
			path := filepath.Join(work, "module01", "package01", fmt.Sprintf("new%03d.go", i))
			require.NoError(b, os.WriteFile(path, []byte(path), 0o600))
		}
	}, collect(100))
	measure("Fold", nil, func(b *testing.B) {
		delta, err := s.Content.PutDelta(ctx, cas.Delta{"new": {Entry: file("x")}})
		require.NoError(b, err)
		_, err = s.Content.Fold(ctx, manifest, []session.Step{{By: id("a"), Work: session.Work{Delta: delta}}})
		require.NoError(b, err)
	})
}
