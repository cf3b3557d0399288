//go:build system

package system

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestClaudeCodeRunsASession has Claude Code, led by a test's model server, start a session with
// the tools of `maestro mcp`, wait for it, and read its changes.
func TestClaudeCodeRunsASession(t *testing.T) {
	t.Parallel()
	bin, err := installedCLIs()
	require.NoError(t, err)
	w := newWorldAlone(t)
	w.write("agents.yaml", `{version: 1, agents: {coder: {kind: command, argv: [/bin/sh, -c, 'cat notes.txt > work.txt']}}}`)
	w.startWorker()
	team := "version: 1\nname: builders\npersonas: {builder: {role: Builder, agent: coder, instructions: Build.}}\nphases: " +
		"[{name: build, personas: [builder]}]\n"
	model := providertest.New(t, func(r providertest.Request) providertest.Reply {
		if !strings.Contains(strings.Join(r.Tools, " "), "mcp__maestro__start_session") {
			return providertest.Say("nothing") // a call of the program for itself
		}
		switch r.Turn() {
		case 1:
			return providertest.Use(providertest.Tool("mcp__maestro__store_texts", map[string]any{
				"team": map[string]any{"file": team}, "files": map[string]string{"notes.txt": "from the agent\n"},
			}))
		case 2:
			stored := regexp.MustCompile(`"workspace":\s*"([0-9a-f]{64})"`).FindStringSubmatch(fmt.Sprint(r.Messages))
			if stored == nil {
				return providertest.Say("no workspace")
			}
			return providertest.Use(providertest.Tool("mcp__maestro__start_session", map[string]any{
				"team": map[string]any{"file": team}, "requirement": "Build it.", "session": "by-claude", "workspace": stored[1],
			}))
		case 3:
			return providertest.Use(providertest.Tool("mcp__maestro__wait_session", map[string]any{"session": "by-claude", "seconds": 50}))
		case 4:
			return providertest.Use(providertest.Tool("mcp__maestro__diff_session", map[string]any{"session": "by-claude"}))
		}
		return providertest.Say("done")
	})
	variables := map[string]string{}
	for _, v := range w.environment() {
		name, value, _ := strings.Cut(v, "=")
		variables[name] = value
	}
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"maestro": map[string]any{
		"command": filepath.Join(programs, "maestro"), "args": []string{"mcp"}, "env": variables,
	}}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	claude := exec.CommandContext(ctx, filepath.Join(bin, "claude"), "--print", "--mcp-config", w.write("mcp.json", string(servers)),
		"--strict-mcp-config",
		"--allowedTools", "mcp__maestro__store_texts,mcp__maestro__start_session,mcp__maestro__wait_session,mcp__maestro__diff_session")
	claude.Stdin = strings.NewReader("Run the team.")
	claude.Dir = w.dir
	claude.Env = append(os.Environ(), "HOME="+t.TempDir(), "ANTHROPIC_BASE_URL="+model.URL(),
		"ANTHROPIC_API_KEY=not-a-key-of-anyone", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	out, err := claude.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "done")
	w.completes("by-claude")
	var results []string
	for _, m := range model.Requests()[model.Count()-1].Messages {
		for _, r := range m.Results {
			require.False(t, r.Error, r.Text)
			results = append(results, r.Text)
		}
	}
	require.Len(t, results, 4)
	require.Contains(t, results[1], "by-claude")
	require.Contains(t, results[2], "completed")
	require.Contains(t, results[3], "from the agent")
}
