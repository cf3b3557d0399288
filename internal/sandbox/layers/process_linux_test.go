//go:build !failpoints

package layers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
	"github.com/maestro-hive/maestro/internal/sandbox/layers"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// errand is what a process of its own does to layers.
type errand struct {
	Store, Root string
	Acquire     []spec.Digest
	MaxBytes    int64
	// Collect: it collects at the end, holding nothing.
	Collect bool
	// Kill names the failpoint, and At the time that it is reached, at which it dies.
	Kill string
	At   int32
}

func TestMain(m *testing.M) {
	castest.Main(m, map[string]func(string, []string) error{"errand": run})
}

// run does an errand, says so, and holds what it has acquired until its input ends.
func run(value string, _ []string) error {
	var e errand
	if err := json.Unmarshal([]byte(value), &e); err != nil {
		return err
	}
	var times atomic.Int32
	failpoint.Observe(func(point string, _ func()) {
		if point == e.Kill && times.Add(1) == e.At {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	blobs, err := storage.NewDirectory(e.Store, time.Now)
	if err != nil {
		return err
	}
	s := cas.New(blobs, cas.Options{StoreDir: e.Store})
	l, err := layers.New(layers.Options{Root: e.Root, Files: s, MaxBytes: e.MaxBytes, Now: time.Now})
	if err != nil {
		return err
	}
	var near spec.Digest
	for _, m := range e.Acquire {
		stack, err := l.Acquire(context.Background(), m, near)
		if err != nil {
			return err
		}
		if near = m; e.Collect {
			_ = stack.Release()
		}
	}
	if e.Collect {
		if err := l.Collect(context.Background()); err != nil {
			return err
		}
	}
	fmt.Println("done")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// start starts a process for an errand, and waits until it has done it or has died.
func start(t *testing.T, e errand) (cmd *exec.Cmd, done bool) {
	t.Helper()
	value, err := json.Marshal(e)
	require.NoError(t, err)
	cmd = castest.Process(t, "errand", string(value))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	t.Cleanup(func() { _ = stdin.Close() })
	return cmd, line == "done\n"
}

// Wherever a process is killed while it makes and removes layers: what is there is
// whole, and what it leaves is removed.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	trees := make([]map[string]string, 4)
	for i := range trees {
		trees[i] = map[string]string{"changed": fmt.Sprint(i), fmt.Sprintf("removed/later/%d", i): "1"}
		for j := range 10 {
			trees[i][fmt.Sprintf("d/same%d", j)] = "1"
		}
	}
	for _, point := range []string{"begun", "filled", "made", "published", "evicted"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for at := int32(1); ; at++ {
				store, root := t.TempDir(), t.TempDir()
				s := openStore(t, store)
				var manifests []spec.Digest
				for _, files := range trees {
					manifests = append(manifests, put(t, s, files))
				}
				cmd, done := start(t, errand{
					Store: store, Root: root, Acquire: manifests, MaxBytes: 1, Collect: true, Kill: "layers: " + point, At: at,
				})
				if done {
					require.Greater(t, at, int32(1), "the failpoint is reached")
					return
				}
				require.Error(t, cmd.Wait())
				l := openLayers(t, s, root, func(o *layers.Options) { o.MaxBytes = 1 })
				for i, m := range manifests {
					stack := acquire(t, l, m)
					require.Equal(t, full(trees[i]), union(t, stack.Dirs))
					require.NoError(t, stack.Release())
				}
				require.NoError(t, l.Collect(t.Context()))
				require.Empty(t, layersOf(t, root))
				left, err := os.ReadDir(filepath.Join(root, "tmp"))
				require.NoError(t, err)
				require.Empty(t, left)
			}
		})
	}
}
