//go:build system

package system

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// greeter is a repository in TypeScript, whose test asks for a flag that is not there.
var greeter = map[string]string{
	"package.json":      `{"name": "greet", "version": "1.0.0", "type": "module", "scripts": {"test": "node --test"}}`,
	"package-lock.json": `{"name": "greet", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {"": {"name": "greet", "version": "1.0.0"}}}`,
	"src/greet.ts":      "export const greet = (name: string): string => `hello ${name}`;\n",
	"test/greet.test.js": "import test from 'node:test';\nimport assert from 'node:assert';\nimport {readFileSync} from " +
		"'node:fs';\n" +
		"test('shouts', () => assert.match(readFileSync('src/greet.ts', 'utf8'), /toUpperCase/));\n",
}

// TestOneCommandInARepository has each agent program plan, make and review a change in a repository that nobody has prepared, on
// a machine on which no Maestro runs.
func TestOneCommandInARepository(t *testing.T) {
	t.Parallel()
	bin, err := installedCLIs()
	require.NoError(t, err)
	server, err := filepath.Abs("../../../bin/maestro-server")
	require.NoError(t, err)
	require.FileExists(t, server, "run `make build` first")
	if err := os.Symlink(server, filepath.Join(programs, "maestro-server")); !errors.Is(err, fs.ErrExist) {
		require.NoError(t, err)
	}
	for _, m := range meteredCLIs() {
		t.Run(m.preset, func(t *testing.T) {
			t.Parallel()
			const change = `echo 'export const shout = (name: string): string => name.toUpperCase();' >> src/greet.ts`
			provider := providertest.New(t, func(r providertest.Request) providertest.Reply {
				if strings.Contains(string(r.Body), "Task Routing AI") { // Gemini CLI asks which model it shall use
					return providertest.Say(`{"complexity_reasoning": "It is one function.", "complexity_score": 90}`)
				}
				reply := providertest.Reply{Text: "Done, as far as I can see.", Usage: cost.Usage{InputTokens: 90, OutputTokens: 40}}
				if body := string(r.Body); strings.Contains(body, "Make the change that the requirement") && len(r.Tools) > 0 &&
					!strings.Contains(body, "toUpperCase") {
					reply.Calls = []providertest.Call{m.run(r, change)}
				}
				return reply
			})
			w := emptyWorld(t)
			w.variables = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TEMPORAL_ADDRESS=", "MAESTRO_AGENTS="},
				map[wire.API][]string{
					wire.Anthropic: {"ANTHROPIC_API_KEY=" + providerKey, "ANTHROPIC_BASE_URL=" + provider.URL()},
					wire.OpenAI:    {"OPENAI_API_KEY=" + providerKey, "OPENAI_BASE_URL=" + provider.OpenAIURL()},
					wire.Gemini:    {"GEMINI_API_KEY=" + providerKey, "GOOGLE_GEMINI_BASE_URL=" + provider.URL()},
				}[m.format]...)
			for name, text := range greeter {
				w.write("greet/"+name, text)
			}
			w.cwd = filepath.Join(w.dir, "greet")
			for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {
				"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q",
				"-m", "x",
			}} {
				git := exec.CommandContext(t.Context(), "git", args...)
				git.Dir = w.cwd
				out, err := git.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			got := w.maestro("run", "Add a function that shouts", "--session", "shout")
			require.Zero(t, got.code, "%s%s", got.stdout, got.stderr)
			require.Contains(t, got.stderr, "checks      npm ci && npm test\n")
			require.Contains(t, got.stderr, "            changed  src/greet.ts\n")
			require.Contains(t, got.stderr, "checks      passed: npm-test\n")
			require.Contains(t, got.stderr, " USD\n", "each call is priced")
			w.must("apply", "shout")
			data, err := os.ReadFile(filepath.Join(w.cwd, "src/greet.ts"))
			require.NoError(t, err)
			require.Contains(t, string(data), "toUpperCase")
			logs := w.must("logs", "shout")
			require.Regexp(t, `(?m)^\? .*system prompt.*: [0-9,]{5,} characters; --full shows them$`, logs)
			require.Less(t, 3*strings.Count(logs, "\n"), strings.Count(w.must("logs", "shout", "--full"), "\n"), logs)
		})
	}
}
