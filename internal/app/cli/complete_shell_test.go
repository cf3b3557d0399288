//go:build system

package cli_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
)

// install does what docs/cli.md says for a shell.
func (d *desk) install(shell string) {
	d.t.Helper()
	page, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(d.t, err)
	_, block, found := strings.Cut(string(page), "```\n# "+shell)
	require.True(d.t, found, "docs/cli.md does not say how to install completion for %s", shell)
	_, block, _ = strings.Cut(block, "\n")
	block, _, _ = strings.Cut(block, "```")
	cmd := exec.Command("sh", "-ec", block)
	cmd.Env = d.withMaestro()
	out, err := cmd.CombinedOutput()
	require.NoError(d.t, err, "%s", out)
	require.Empty(d.t, string(out))
}

// withMaestro is the desk's environment, with maestro in PATH.
func (d *desk) withMaestro() []string {
	return append(d.environ[:len(d.environ):len(d.environ)], "PATH="+filepath.Dir(temporaltest.Binary(d.t, "maestro"))+":"+
		os.Getenv("PATH"))
}

// TestCompletionInFish installs the completion as docs/cli.md says, and asks fish what it offers: the scripts of all
// shells ask the same command, which TestCompletion tests.
func TestCompletionInFish(t *testing.T) {
	t.Parallel()
	b := newBank(t).withCrew()
	b.file("team.yaml", planTeam)
	b.file("notes.txt", "")
	b.file("src/main.go", "")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		b.install(shell)
	}
	for begun, want := range map[string]string{
		"maestro wat":                            "watch",
		"maestro watch st":                       "stuck",
		"maestro watch ":                         "web.v2-done stuck judged",
		"maestro logs stuck bu":                  "build/bob",
		"maestro resolve stuck retry --for=b":    "--for=build/bob",
		"maestro resolve stuck supply no":        "notes.txt",
		"maestro plan te":                        "team.yaml",
		"maestro plan no":                        "notes.txt", // nothing better begins so
		"maestro plan team.yaml --only design,s": "design,survey",
		"maestro list no":                        "",
		"maestro list --state-dir s":             "src/ state/",
	} {
		cmd := exec.Command("fish", "--command", "complete --do-complete '"+begun+"'")
		cmd.Dir, cmd.Env = b.dir, b.withMaestro()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		var words []string // fish decides on the order, and describes what it likes
		for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			word, _, _ := strings.Cut(line, "\t")
			words = append(words, word)
		}
		require.ElementsMatch(t, strings.Split(want, " "), words, begun)
	}
}

// TestCompletionDoesNotContactTemporal completes with a server that accepts connections
// and never answers.
func TestCompletionDoesNotContactTemporal(t *testing.T) {
	b := newBank(t)
	b.session("web-001", "crew", time.Hour, tokensOf(1, 1, 0))
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var contacts atomic.Int32
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			contacts.Add(1)
			defer func() { _ = conn.Close() }()
		}
	}()
	t.Cleanup(func() { _ = silent.Close() })
	b.set("TEMPORAL_ADDRESS", silent.Addr().String())
	for _, typed := range []string{"watch", "resolve", "logs web-001"} {
		cmd := exec.Command(temporaltest.Binary(t, "maestro"), append(append([]string{"__complete"}, strings.Fields(typed)...), "")...)
		cmd.Env = b.environ
		require.NoError(t, cmd.Run(), typed)
	}
	require.Zero(t, contacts.Load())
}
