//go:build system

package docs_test

import (
	"os"
	"os/exec"
	"strings"
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

// TestThePageShowsTheExample holds the program in the page to be the one that is run.
func TestThePageShowsTheExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("writing-an-agent.md")
	require.NoError(t, err)
	for file, language := range map[string]string{"python/counter.py": "python", "shell/writer.sh": "sh"} {
		program, err := os.ReadFile("../examples/" + file)
		require.NoError(t, err)
		require.True(t, strings.Contains(string(page), "```"+language+"\n"+string(program)+"```\n"), "%s is not what the page shows", file)
	}
}
