// Package proctest has helpers of tests that start programs: building them, ports for
// servers that cannot choose a free one themselves, and the output of programs that
// still run.
package proctest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// The range of ports is below the range of outgoing connections, and below the ports of
// the development server.
const (
	least = 12_000
	most  = 20_000
)

// FreePort returns a TCP port of 127.0.0.1 that no process listens on. Until the test ends,
// no other test gets it, so that a server can start on it later, and restart.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := least + rand.IntN(most-least) //nolint:gosec // any will do
		release, err := hold(port)
		if err != nil {
			continue
		}
		t.Cleanup(release)
		return strconv.Itoa(port)
	}
	t.Fatalf("no port between %d and %d is free", least, most)
	return ""
}

// Output is what a program has printed so far. It may be read while the program writes.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Programs are the packages of the programs that `make build` builds in bin, by name.
var Programs = map[string]string{
	"maestro": "./starter", "maestro-worker": "./worker",
	"maestro-shim": "./internal/sandbox/room/maestro-shim", "maestro-namespace": "./deploy/namespace",
}

// Build builds a package of this module as `make build` does, with more flags. root is
// where the module is. A program of that name in bin that is up to date is copied.
func Build(root, target, pkg string, flags ...string) error {
	target, err := filepath.Abs(target)
	if err != nil {
		return err
	}
	built, err := os.ReadFile(filepath.Join(root, "bin", filepath.Base(target)))
	if err == nil {
		err = os.WriteFile(target, built, 0o755) //nolint:gosec // a path of the test's own
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-buildvcs=auto", "-ldflags=-s -w", "-o", target},
		flags...), pkg)...)
	cmd.Dir, cmd.Env = root, append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
