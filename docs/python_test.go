//go:build system

package docs_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPageOnAgents does what the page on writing agents says, which takes Python.
func TestPageOnAgents(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("python3")
	require.NoError(t, err, "install python3")
	follow(t, "writing-an-agent.md", false)
}
