//go:build !failpoints

package storage_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

const packerVariable = "MAESTRO_TEST_PACKER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(packerVariable); dir != "" {
		if err := runPacker(dir, os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runPacker packs in a process of its own, which dies at a failpoint, the times-th time.
func runPacker(dir, point, times string) error {
	left, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	var reached atomic.Int32
	failpoint.Observe(func(at string, tear func()) {
		torn := tear != nil && filepath.Base(at) == "index"
		if (at == point || torn && point == "torn") && reached.Add(1) == int32(left) {
			if torn {
				tear()
			}
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	s, err := storage.NewDirectory(dir, time.Now)
	if err != nil {
		return err
	}
	return pack(context.Background(), s)
}

// pack adds 600 blobs to 900 others, and removes 300 and then 400 of those.
func pack(ctx context.Context, s storage.Storage) error {
	if err := putBatch(ctx, s, numbered(900, 1500)); err != nil {
		return err
	}
	for _, gone := range [][][]byte{numbered(0, 100), numbered(100, 700)} {
		if err := s.SweepBlobs(func(remove func(spec.Digest) error) error {
			for _, content := range gone {
				if err := remove(digest(content)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// TestKilledWhilePacking: wherever a process dies that packs and sweeps, each blob is there or
// not, and those that nobody removes are.
func TestKilledWhilePacking(t *testing.T) {
	t.Parallel()
	for point, most := range map[string]int{"pack: contents": 2, "torn": 4, "pack: finished": 4, "pack: twice": 3, "pack: discarded": 3} {
		for times := 1; times <= most; times++ {
			t.Run(fmt.Sprint(point, times), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				require.NoError(t, putBatch(t.Context(), open(t, dir), numbered(0, 900)))
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", point, strconv.Itoa(times))
				cmd.Env = append(os.Environ(), packerVariable+"="+dir)
				out, err := cmd.CombinedOutput()
				require.ErrorContains(t, err, "killed", "%s", out)

				s := open(t, dir)
				intact(t, s, numbered(700, 900))
				added := 0
				for _, content := range numbered(900, 1500) {
					if _, err := s.StatBlob(digest(content)); err == nil {
						added++
						intact(t, s, [][]byte{content})
					}
				}
				require.Contains(t, []int{0, 600}, added, "all of a batch or nothing")
				require.NoError(t, s.ListBlobs(t.Context(), func(spec.Digest) {}, func(key, what string) { require.Fail(t, what, key) }))

				require.NoError(t, pack(t.Context(), s))
				for _, content := range numbered(0, 700) {
					_, err := s.StatBlob(digest(content))
					require.ErrorIs(t, err, storage.ErrNotFound)
				}
				intact(t, open(t, dir), numbered(700, 1500))
				late, err := storage.NewDirectory(dir, func() time.Time { return time.Now().Add(48 * time.Hour) })
				require.NoError(t, err)
				late.RemoveOldTemp()
				left, err := os.ReadDir(filepath.Join(dir, "tmp"))
				require.NoError(t, err)
				require.Empty(t, left)
				require.Less(t, sizeOf(t, dir), int64(800*1000*4/3+100_000), "what is not used is given back")
			})
		}
	}
}

func sizeOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	for _, path := range (&packedStore{T: t, dir: dir}).files() {
		info, err := os.Stat(path)
		require.NoError(t, err)
		size += info.Size()
	}
	return size
}
