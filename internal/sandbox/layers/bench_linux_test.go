package layers_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/layers"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

const times = 9

// median is the one of the times that something takes. What is done then is not counted.
func median(do func(i int), then ...func()) time.Duration {
	var took [times]time.Duration
	for i := range took {
		start := time.Now()
		do(i)
		took[i] = time.Since(start)
		for _, f := range then {
			f()
		}
	}
	slices.Sort(took[:])
	return took[len(took)/2]
}

func treeOf(b *testing.B, s *cas.Store, files int) spec.Digest {
	b.Helper()
	m := cas.Manifest{}
	text := make([]byte, 3000)
	for i := range files {
		copy(text, fmt.Sprint(i))
		blob, err := s.PutBlob(b.Context(), text[:100+i%2900])
		require.NoError(b, err)
		m[fmt.Sprintf("dir%03d/sub%d/file%05d.go", i%100, i%7, i)] = cas.Entry{SHA256: blob, Size: int64(100 + i%2900)}
	}
	name, err := s.PutManifest(b.Context(), m)
	require.NoError(b, err)
	return name
}

// firstUse compares the time that the layers of a tree take to be made with that of copying
// them, in turn.
func firstUse(b *testing.B, s *cas.Store, m spec.Digest, top string) float64 {
	b.Helper()
	var copies time.Duration
	made := median(func(i int) {
		acquire(b, openLayers(b, s, filepath.Join(top, fmt.Sprint("first", i)), nil), m)
	}, func() {
		from, err := filepath.Glob(filepath.Join(top, "first*", "*", "tree"))
		require.NoError(b, err)
		start := time.Now()
		to := filepath.Join(top, fmt.Sprint("copied", len(from)))
		require.NoError(b, exec.CommandContext(b.Context(), "cp", "-r", from[len(from)-1], to).Run())
		copies += time.Since(start) / times
	})
	return made.Seconds() / copies.Seconds()
}

// What does not depend on the speed of the host: trees of 10,000 files compared with trees of
// 10, and the first use of a tree compared with `cp -r`.
func BenchmarkRatios(b *testing.B) {
	for b.Loop() {
		var warm, collected, stepped [2]time.Duration
		for i, files := range []int{10, 10_000} {
			top := b.TempDir()
			s := openStore(b, filepath.Join(top, "store"))
			m := treeOf(b, s, files)
			l := openLayers(b, s, filepath.Join(top, "layers"), nil)
			if files > 10 {
				b.ReportMetric(firstUse(b, s, m, top), "first/cp")
			}
			require.NoError(b, acquire(b, l, m).Release())
			warm[i] = median(func(int) { require.NoError(b, acquire(b, l, m).Release()) })
			upper := filepath.Join(top, "upper")
			require.NoError(b, os.Mkdir(upper, 0o700))
			var out session.Collected
			var err error
			var steps []time.Duration
			collected[i] = median(func(n int) {
				require.NoError(b, os.WriteFile(filepath.Join(upper, "new.go"), fmt.Append(nil, n), 0o600))
				out, err = s.Collect(b.Context(), session.Collect{Base: m, Lower: m, Dir: upper})
				require.NoError(b, err)
			}, func() {
				start := time.Now()
				acquire(b, l, out.Output, m)
				steps = append(steps, time.Since(start))
			})
			slices.Sort(steps)
			stepped[i] = steps[len(steps)/2]
		}
		for name, took := range map[string][2]time.Duration{"warm": warm, "collect": collected, "step": stepped} {
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), name+"-10000/10")
			b.ReportMetric(float64(took[1].Microseconds()), name+"-10000-µs")
		}
	}
}

// workspace makes a directory of files of 100 bytes to 3 kB.
func workspace(b *testing.B, dir string, files int) {
	b.Helper()
	text := make([]byte, 3000)
	for i := range files {
		p := filepath.Join(dir, fmt.Sprintf("dir%03d", i%100), fmt.Sprintf("sub%d", i%7), fmt.Sprintf("file%05d.go", i))
		if i < 700 {
			require.NoError(b, os.MkdirAll(filepath.Dir(p), 0o755))
		}
		copy(text, fmt.Sprint(i))
		require.NoError(b, os.WriteFile(p, text[:100+i%2900], 0o600))
	}
}

// The first session of a tree of 100,000 files, compared with `cp -r` of it: to take the
// workspace, and to make its layers.
func BenchmarkFirstSession(b *testing.B) {
	for b.Loop() {
		top := b.TempDir()
		dir := filepath.Join(top, "workspace")
		workspace(b, dir, 100_000)
		took := func(do func()) float64 {
			start := time.Now()
			do()
			return time.Since(start).Seconds()
		}
		require.NoError(b, os.Mkdir(filepath.Join(top, "store"), 0o700))
		blobs, err := storage.NewDirectory(filepath.Join(top, "store"), time.Now)
		require.NoError(b, err)
		s := cas.New(blobs, cas.Options{StoreDir: filepath.Join(top, "store"), StampsDir: filepath.Join(top, "stamps")})
		l := openLayers(b, s, filepath.Join(top, "layers"), nil)
		copying := func(to string) func() {
			return func() {
				require.NoError(b, exec.CommandContext(b.Context(), "cp", "-r", dir, filepath.Join(top, to)).Run())
			}
		}
		cp := took(copying("before"))
		var snap cas.Snapshot
		take := func() {
			var err error
			snap, err = s.Snapshot(b.Context(), dir, cas.SnapshotOptions{})
			require.NoError(b, err)
		}
		taken := took(take)
		made := took(func() { require.NoError(b, acquire(b, l, snap.Manifest).Release()) })
		again := took(take)
		cp = (cp + took(copying("after"))) / 2
		b.ReportMetric((taken+made)/cp, "first/cp")
		b.ReportMetric(taken/cp, "take/cp")
		b.ReportMetric(made/cp, "layers/cp")
		b.ReportMetric(again/cp, "again/cp")
	}
}

// Ten sessions side by side over a new tree of 50,000 files, compared with one.
func BenchmarkSideBySide(b *testing.B) {
	for b.Loop() {
		top := b.TempDir()
		s := openStore(b, filepath.Join(top, "store"))
		m := treeOf(b, s, 50_000)
		made := func(n int) (time.Duration, layers.Usage) {
			root := filepath.Join(top, fmt.Sprint("layers", n))
			l := openLayers(b, s, root, nil)
			start := time.Now()
			var all errgroup.Group
			for range n {
				all.Go(func() error {
					stack, err := l.Acquire(b.Context(), m)
					if err != nil {
						return err
					}
					return stack.Release()
				})
			}
			require.NoError(b, all.Wait())
			took := time.Since(start)
			usage, err := layers.Measure(root)
			require.NoError(b, err)
			return took, usage
		}
		one, oneUses := made(1)
		ten, tenUse := made(10)
		b.ReportMetric(ten.Seconds()/one.Seconds(), "ten/one")
		b.ReportMetric(float64(tenUse.Bytes)/float64(oneUses.Bytes), "ten/one-bytes")
	}
}
