//go:build system

package system

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/clitest"
	"github.com/maestro-hive/maestro/internal/providertest"
	"github.com/maestro-hive/maestro/internal/team"
)

// installedCLIs installs the agent programs of the presets' tests, and returns
// the directory that they are in.
var installedCLIs = sync.OnceValues(func() (string, error) {
	return clitest.Install("../agent/testdata/clis", "claude", "codex")
})

// secondStep is what the second command has printed, as the programs note it.
var secondStep = regexp.MustCompile(`"content":"two"|\\ntwo\\n`)

// noted tells whether an agent program has noted something in its conversation.
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

// TestConversationOutlivesItsWorker kills a worker whose agent program waits for
// its model's third answer. The next worker's program continues the conversation:
// nothing that was answered is asked for again, and nothing is done twice.
func TestConversationOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	for preset, c := range map[string]struct {
		agent func(url string) string
		run   func(r providertest.Request, command string) providertest.Call
	}{
		"claude": {
			func(string) string {
				return "{kind: command, preset: claude, argv: [%s/claude, --permission-mode, acceptEdits, --allowedTools, Bash], env: [ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC]}"
			},
			func(_ providertest.Request, command string) providertest.Call {
				return providertest.Tool("Bash", map[string]string{"command": command, "description": "work"})
			},
		},
		"codex": {
			func(url string) string {
				return "{kind: command, preset: codex, model: gpt-5, env: [CODEX_API_KEY], argv: [%s/codex, exec, --sandbox, workspace-write, -c, model_provider=test, -c, model_providers.test.name=test, " +
					"-c, 'model_providers.test.base_url=" + url + "/v1', -c, model_providers.test.wire_api=responses, -c, model_providers.test.env_key=CODEX_API_KEY]}"
			},
			func(r providertest.Request, command string) providertest.Call {
				if slices.Contains(r.Tools, "exec_command") {
					return providertest.Tool("exec_command", map[string]string{"cmd": command})
				}
				return providertest.Tool("shell_command", map[string]string{"command": command})
			},
		},
	} {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			bin, err := installedCLIs()
			require.NoError(t, err)
			w := newWorld(t)
			waiting := make(chan struct{})
			var once sync.Once
			server := providertest.New(t, func(r providertest.Request) providertest.Reply {
				for _, step := range []string{"one", "two", "three"} {
					command := "echo " + step + " | tee -a made.txt"
					if strings.Contains(string(r.Body), command) {
						continue
					}
					reply := providertest.Reply{Calls: []providertest.Call{c.run(r, command)}, Usage: callCost}
					if step == "three" {
						once.Do(func() {
							close(waiting)
							reply.Fault.Delay = limit // it ends with the program
						})
					}
					return reply
				}
				return providertest.Reply{Text: "All is done.", Usage: callCost}
			})
			w.write("agents.yaml", "version: 1\nagents:\n  coder: "+fmt.Sprintf(c.agent(server.URL()), bin)+"\n")
			teamFile := w.write("team.yaml", `version: 1
name: writers
personas: {writer: {role: Writer, agent: coder, instructions: Write all parts.}}
phases: [{name: write, personas: [writer], produces: ["made.txt"]}]
`)
			variables := []string{
				"ANTHROPIC_BASE_URL=" + server.URL(), "ANTHROPIC_API_KEY=not-a-key-of-anyone", "CODEX_API_KEY=not-a-key-of-anyone",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			}
			start := func() *process {
				return w.serves(w.startWith(variables, filepath.Join(programs, "worker"), "--drain", "1s"))
			}
			worker := start()
			w.must("run", teamFile, "parts", "--session", "talk")
			select {
			case <-waiting:
			case <-time.After(limit):
				require.Fail(t, "the program has not come to its third call", w.must("status", "talk"))
			}
			// What a program has not written down when it dies, it does again.
			w.eventually("the program has noted its second step", func() bool { return w.noted(secondStep) })
			worker.kill()
			before := len(server.Requests())
			start()
			s := w.ends("talk")
			require.Equal(t, team.Completed, s.Status, "%+v", s)
			a := s.Phases[0].Assignments[0]
			require.Equal(t, 1, a.Attempts)
			require.Equal(t, 1, a.LostWorkers)
			require.Len(t, server.Requests(), before+2, "the answer that was lost, and the last")
			require.Contains(t, string(server.Requests()[before].Body), "You were cut off")
			out := filepath.Join(w.dir, "out")
			w.must("artifacts", "get", "talk", "--out", out)
			w.must("checkpoints", "verify", "--all")
			data, err := os.ReadFile(filepath.Join(out, "made.txt"))
			require.NoError(t, err)
			require.Equal(t, "one\ntwo\nthree\n", string(data))
		})
	}
}
