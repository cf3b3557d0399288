// Package temporaltest runs real Temporal servers for tests: bin/maestro-server,
// in memory, on ports of their own.
package temporaltest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startPatience bounds the wait for a server's address.
const startPatience = time.Minute

// Binary finds a program in the repository's bin directory. A test that needs it
// fails where it has not been built.
func Binary(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		path := filepath.Join(dir, "bin", name)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			require.FileExists(t, path, "run `make build` first")
			return path
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, parent, dir, "the test does not run in the repository")
		dir = parent
	}
}

// Start runs a server until the test ends and returns its address. Flags are
// those of maestro-server.
func Start(t testing.TB, flags ...string) string {
	t.Helper()
	address, stop := start(t, flags)
	t.Cleanup(stop)
	return address
}

// start runs a server until stop is called or this process ends.
func start(t testing.TB, flags []string) (where string, stop func()) {
	t.Helper()
	args := append([]string{"--port", "0", "--headless", "--until-stdin-closes"}, flags...)
	cmd := exec.Command(Binary(t, "maestro-server"), args...) // our own program
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	return address(t, stdout), func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}
}

// perServer is how many namespaces a shared server has.
const perServer = 32

// unused are the namespaces that no test has yet, by the flags of their server.
var (
	unusedMu sync.Mutex
	unused   = map[string][]place{}
	// running keeps the pipes to the servers, whose end would stop them.
	running []func()
)

// place is a namespace on a server.
type place struct{ address, namespace string }

// Namespace returns a namespace that only this test uses, on a server that the tests of
// the process share. Flags are those of [Start]. The server ends with the process.
func Namespace(t testing.TB, flags ...string) (address, namespace string) {
	t.Helper()
	unusedMu.Lock()
	defer unusedMu.Unlock()
	key := strings.Join(flags, " ")
	if len(unused[key]) == 0 {
		names := make([]string, perServer)
		all := slices.Clone(flags)
		for n := range names {
			names[n] = fmt.Sprintf("test-%d", n)
			all = append(all, "--namespace", names[n])
		}
		address, stop := start(t, all)
		running = append(running, stop)
		for _, name := range names {
			unused[key] = append(unused[key], place{address, name})
		}
	}
	p := unused[key][0]
	unused[key] = unused[key][1:]
	return p.address, p.namespace
}

// address reads the line in which the server says where it is, and drops the rest.
func address(t testing.TB, stdout io.Reader) string {
	t.Helper()
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[0] == "Temporal" {
				found <- fields[1]
			}
		}
		close(found)
	}()
	select {
	case address := <-found:
		require.NotEmpty(t, address, "the server ended before it was ready")
		return address
	case <-time.After(startPatience):
		require.Fail(t, "the server was not ready in time")
		return ""
	}
}
