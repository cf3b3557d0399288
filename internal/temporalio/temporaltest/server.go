// Package temporaltest runs real Temporal servers for tests: bin/maestro-server,
// in memory, on ports of their own.
package temporaltest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
// those of `maestro-server server start-dev`.
func Start(t testing.TB, flags ...string) string {
	t.Helper()
	args := append([]string{"server", "start-dev", "--port", "0", "--headless", "--until-stdin-closes"}, flags...)
	cmd := exec.Command(Binary(t, "maestro-server"), args...) // our own program
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return address(t, stdout)
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
