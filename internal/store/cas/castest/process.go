package castest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// roleVariable makes a test binary play a role instead of testing.
const roleVariable = "MAESTRO_TEST_ROLE"

// Main runs the tests of a package, or plays the role that [Process] has started this process for: what another process does
// with the directory in its first argument.
func Main(m *testing.M, roles map[string]func(dir string, args []string) error) {
	role, ok := roles[os.Getenv(roleVariable)] //nolint:forbidigo // the edge of a process
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err) //nolint:forbidigo // the edge of a process
		os.Exit(1)
	}
}

// Process prepares another process that plays a role.
func Process(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role) //nolint:forbidigo // the other process has that of this one
	return cmd
}
