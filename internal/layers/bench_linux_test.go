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

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
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
