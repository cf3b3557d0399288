//go:build system

package system

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/clitest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// stepNoted is what a step has printed, as the programs note it.
func stepNoted(step string) *regexp.Regexp {
	return regexp.MustCompile(`"content":"` + step + `"|\\n` + step + `\\n`)
}

// conversing is the definition of an agent program in a directory, led to a URL.
type conversing func(bin, url string) string

var conversingCLIs = map[string]conversing{
	"claude": func(bin, _ string) string {
		return "{kind: command, preset: claude, argv: [" + bin +
			"/claude, --permission-mode, acceptEdits, --allowedTools, Bash], env: [ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, " +
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC]}"
	},
	"codex": func(bin, url string) string {
		return "{kind: command, preset: codex, model: gpt-5, env: [CODEX_API_KEY], argv: [" + bin +
			"/codex, exec, --sandbox, workspace-write, -c, model_provider=test, -c, model_providers.test.name=test, " +
			"-c, 'model_providers.test.base_url=" + url + "/v1', -c, model_providers.test.wire_api=responses, -c, " +
			"model_providers.test.env_key=CODEX_API_KEY]}"
	},
}

// converse prepares a team whose only persona is the program, and returns its file
// and what starts a worker, whose file has more in front of its agents.
func (w *world) converse(c conversing, url, more string) (teamFile string, start func() *process) {
	w.t.Helper()
	bin, err := installedCLIs()
	require.NoError(w.t, err)
	w.write("agents.yaml", "version: 1\n"+more+"agents:\n  coder: "+c(bin, url)+"\n")
	teamFile = w.write("team.yaml", `version: 1
name: writers
personas: {writer: {role: Writer, agent: coder, instructions: Write all parts.}}
phases: [{name: write, personas: [writer], produces: ["made.txt"]}]
`)
	variables := []string{
		"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=not-a-key-of-anyone", "CODEX_API_KEY=not-a-key-of-anyone",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}
	return teamFile, func() *process {
		return w.serves(w.startWith(variables, filepath.Join(programs, "maestro-worker"), "--drain", "1s"))
	}
}

// noted reports whether an agent program has noted something in its conversation.
func (w *world) noted(what *regexp.Regexp) bool {
	found := false
	_ = filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, _ error) error { // files come and go
		if filepath.Ext(path) == ".jsonl" {
			data, err := os.ReadFile(path)
			found = found || err == nil && what.Match(data)
		}
		return nil
	})
	return found
}

// TestKilledProgramsAreBooked kills the worker three times while its agent program
// waits for an answer. Every answer that was delivered is spent, to the token, and each
// request that was under way is estimated.
func TestKilledProgramsAreBooked(t *testing.T) {
	t.Parallel()
	for preset, c := range conversingCLIs {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var mu sync.Mutex
			delivered, held, waiting := 0, map[string]bool{}, make(chan string, 3)
			steps := []string{"one", "two", "three", "four"}
			server := providertest.New(t, func(r providertest.Request) providertest.Reply {
				mu.Lock()
				defer mu.Unlock()
				reply := providertest.Reply{Text: "All is done.", Usage: callCost}
				for i, step := range steps {
					command := "echo " + step + " | tee -a made.txt"
					if strings.Contains(string(r.Body), command) {
						continue
					}
					reply = providertest.Reply{Calls: []providertest.Call{clitest.Run(preset, r, command)}, Usage: callCost}
					if i > 0 && !held[step] {
						held[step] = true
						waiting <- steps[i-1]
						reply.Fault.Delay = limit // it ends with the program
						return reply
					}
					break
				}
				delivered++
				return reply
			})
			teamFile, start := w.converse(c, server.URL(), "")
			worker := start()
			w.must("run", teamFile, "parts", "--session", "talk")
			for range steps[1:] {
				select {
				case last := <-waiting:
					w.eventually("the program has noted its step", func() bool { return w.noted(stepNoted(last)) })
				case <-time.After(limit):
					require.Fail(t, "the program does not ask", w.must("status", "talk"))
				}
				worker.kill()
				worker = start()
			}
			s := w.completes("talk")
			require.Equal(t, 5, delivered)
			require.Equal(t, int64(delivered)*callCost.InputTokens, s.Usage.InputTokens)
			require.Equal(t, int64(delivered)*callCost.OutputTokens, s.Usage.OutputTokens)
			var shown struct {
				Open []struct {
					State    state.CallState `json:"state"`
					Estimate cost.Amount     `json:"estimate"`
				} `json:"open"`
			}
			require.NoError(t, json.Unmarshal([]byte(w.must("budget", "show", "talk", "-o", "json")), &shown))
			require.Len(t, shown.Open, 3)
			for _, call := range shown.Open {
				require.Equal(t, state.CallUnsettled, call.State)
				require.GreaterOrEqual(t, call.Estimate.Tokens, callCost.Tokens()+callCost.OutputTokens, "the conversation is sent again")
			}
			t.Logf("%s: %d answers of %d tokens delivered, %d spent, %d unsettled in %d calls", preset, delivered, callCost.Tokens(),
				s.Usage.Tokens(), s.Unsettled.Tokens(), len(shown.Open))
		})
	}
}
