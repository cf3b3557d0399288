//go:build system

package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/clitest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// installedCLIs installs the agent programs of the presets' tests, and returns
// the directory that they are in.
var installedCLIs = sync.OnceValues(func() (string, error) {
	return clitest.Install("../../models/agent/testdata/clis", "claude", "codex", "gemini")
})

// providerKey is the key of the providers in these tests.
const providerKey = "sk-the-key-of-the-provider"

// meteredCLI is an agent program that reaches its provider through the gateway.
type meteredCLI struct {
	preset, model string
	format        wire.API
	prices        cost.Prices
	// tokens pay for all steps but the last, and for two answers that are lost.
	tokens int
}

func meteredCLIs() []meteredCLI {
	return []meteredCLI{
		{
			"claude", "claude-sonnet-4-5", wire.Anthropic,
			cost.Prices{Input: 3e9, Output: 15e9, CacheRead: 3e8, CacheWrite: 375e7, CacheWrite1h: 6e9, WebSearch: 1e10},
			205_000,
		},
		{
			"codex", "gpt-5", wire.OpenAI,
			cost.Prices{Input: 125e7, Output: 1e10, CacheRead: 125e6, WebSearch: 1e10},
			70_000,
		},
		{
			"gemini", "gemini-2.5-pro", wire.Gemini,
			cost.Prices{Input: 125e7, Output: 1e10, CacheRead: 31e7, WebSearch: 35e9},
			82_000,
		},
	}
}

var meteredSteps = []string{"one", "two", "three", "four", "five"}

// meteredProvider is the provider of a program. It counts for itself.
type meteredProvider struct {
	*providertest.Server
	meteredCLI
	// held is closed when the program waits for the rest of an answer.
	held chan struct{}

	mu   sync.Mutex
	seen map[string]int
	// lost are the calls whose answers were cut off.
	lost []int
}

func (m meteredCLI) start(t *testing.T) *meteredProvider {
	p := &meteredProvider{meteredCLI: m, held: make(chan struct{}), seen: map[string]int{}}
	p.Server = providertest.New(t, p.answer)
	return p
}

// answer is the next step of the conversation. Each call costs another sum. The provider is overloaded
// at the second step, breaks off an answer at the third, and holds one at the fourth.
func (p *meteredProvider) answer(r providertest.Request) providertest.Reply {
	n := int64(r.N)
	reply := providertest.Reply{Text: "All is done, as far as I can see.", Usage: cost.Usage{
		InputTokens: 90 + n, OutputTokens: 40 + 3*n, CacheReadTokens: int64(len(r.Body) / 4), ReasoningTokens: 7,
		WebSearches: 1,
	}}
	if p.format == wire.Anthropic {
		reply.Usage.CacheWriteTokens, reply.Usage.CacheWrite1hTokens, reply.Usage.ReasoningTokens = 200+n, 50+n, 0
	}
	i := slices.IndexFunc(meteredSteps, func(step string) bool { return !strings.Contains(string(r.Body), p.command(step)) })
	if i < 0 || len(r.Tools) == 0 {
		return reply
	}
	step := meteredSteps[i]
	reply.Text = "The next step of the work is this one."
	reply.Calls = []providertest.Call{clitest.Run(p.preset, r, p.command(step))}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[step]++
	if p.seen[step] > 1 {
		return reply
	}
	switch step {
	case "two":
		return providertest.Failing(providertest.Fault{Status: 503, Type: "overloaded_error", Message: "Overloaded", RetryAfter: "1"})
	case "three":
		p.lost = append(p.lost, r.N)
		reply.Fault.CutAfter = 600
		if p.format == wire.Anthropic { // its first event is long
			reply.Fault.CutAfter = 900
		}
	case "four":
		p.lost = append(p.lost, r.N)
		reply.Fault.Hold = func(sent int) <-chan struct{} {
			if sent == 0 {
				return nil
			}
			close(p.held)
			return make(chan struct{})
		}
	}
	return reply
}

func (m meteredCLI) command(step string) string {
	return "echo " + step + " | tee -a " + m.preset + ".txt"
}

// withCLIs writes a worker file with the programs and their providers, and a team of them.
func (w *world) withCLIs(isolation string, all []*meteredProvider) (teamFile string) {
	w.t.Helper()
	bin, err := installedCLIs()
	require.NoError(w.t, err)
	w.variables = append(w.variables, "PATH="+bin+":"+os.Getenv("PATH"), "PROVIDER_KEY="+providerKey)
	network := map[string]string{"none": "host", "required": "none"}[isolation]
	var providers, agents, personas strings.Builder
	for _, p := range all {
		url := p.URL()
		if p.format == wire.OpenAI {
			url = p.OpenAIURL()
		}
		fmt.Fprintf(&providers, "  %s: {format: %s, base_url: %q, key_env: PROVIDER_KEY, models: {%q: {input: %s, output: %s, "+
			"cache_read: %s, cache_write: %s, cache_write_1h: %s, web_search: %s}}}\n",
			p.format, p.format, url, p.model, p.prices.Input, p.prices.Output, p.prices.CacheRead, p.prices.CacheWrite,
			p.prices.CacheWrite1h, p.prices.WebSearch)
		fmt.Fprintf(&agents, "  %s: {kind: command, preset: %s, gateway: [%s], model: %s, network: %s}\n", p.preset, p.preset, p.format,
			p.model, network)
		fmt.Fprintf(&personas, "  %s: {role: Writer, agent: %s, instructions: Write all parts., budget: {tokens: %d}}\n", p.preset,
			p.preset, p.tokens)
	}
	w.write("agents.yaml", "version: 1\nisolation: "+isolation+"\nproviders:\n"+providers.String()+"agents:\n"+agents.String())
	return w.write("team.yaml", "version: 1\nname: writers\npersonas:\n"+personas.String()+
		"phases: [{name: write, personas: [claude, codex, gemini], produces: [\"*.txt\"]}]\nbudget: {on_exceeded: ask}\n")
}

// billed compares the calls of a program with what its provider has counted: each answer that came is settled,
// once and at the list's prices, each that was lost has an estimate, and what was refused costs nothing.
func (w *world) billed(p *meteredProvider) {
	w.t.Helper()
	var want, got []cost.Usage
	for n := 1; n <= p.Count(); n++ {
		if u := p.Served(n).Usage; u != (cost.Usage{}) && !slices.Contains(p.lost, n) {
			u.CostUSD = p.prices.Cost(u, "")
			want = append(want, u)
		}
	}
	var unsettled int
	for _, c := range w.calls("parts", spec.AssignmentID{Phase: "write", Persona: p.preset}) {
		switch c.State {
		case state.CallAnswered:
			got = append(got, c.Usage)
		case state.CallUnsettled:
			unsettled++
			require.Greater(w.t, c.Spent().Tokens, p.Served(1).Usage.OutputTokens, "%+v", c)
		default:
			require.Zero(w.t, c.Usage, "%+v", c)
		}
	}
	require.ElementsMatch(w.t, want, got, p.preset)
	require.Len(w.t, p.lost, 2)
	require.Equal(w.t, 2, unsettled, p.preset)
}

// TestAgentProgramsAreMetered has Claude Code, Codex and Gemini CLI go through a session, with faults of their providers
// and budgets that end, where what runs them is killed in the middle of a call of each. Each goes on in its
// conversation, and the books have what the providers have counted.
func TestAgentProgramsAreMetered(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"none", "required"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			w := newWorldAlone(t)
			if isolation == "required" {
				permitsRooms(t)
			}
			var all []*meteredProvider
			for _, m := range meteredCLIs() {
				all = append(all, m.start(t))
			}
			team := w.withCLIs(isolation, all)
			worker := w.startWorker()
			w.must("run", team, "Write the parts.", "--session", "parts")
			for _, p := range all {
				select {
				case <-p.held:
				case <-time.After(limit):
					require.Fail(t, p.preset+" has not come to its fourth step", w.must("status", "parts"))
				}
			}
			if isolation == "required" {
				w.server.kill()
			}
			worker.kill()
			if isolation == "required" {
				w.startServer()
			}
			w.startWorker()
			w.shows("parts", "each needs a budget", func(s session.Status) bool { return len(s.Help) == len(all) })
			for _, p := range all {
				require.LessOrEqual(t, p.spent().Tokens(), int64(p.tokens), p.preset)
				w.must("budget", "raise", "parts", "--persona", p.preset, "--tokens", "1000000")
			}
			s := w.completes("parts")
			out := filepath.Join(w.dir, "out")
			w.must("artifacts", "get", "parts", "--out", out)
			for i, p := range all {
				w.billed(p)
				data, err := os.ReadFile(filepath.Join(out, p.preset+".txt"))
				require.NoError(t, err)
				require.Equal(t, strings.Join(meteredSteps, "\n")+"\n", string(data), "nothing is done twice")
				a := s.Phases[0].Assignments[i]
				require.Equal(t, 1, a.Attempts, "%+v", a)
				require.Equal(t, 1, a.LostWorkers)
			}
			require.Equal(t, s.Usage, w.costs("parts").Usage)
			require.Zero(t, w.costs("parts").Reserved)
			w.holdsNoKey("parts")
		})
	}
}

// spent is what the provider has counted.
func (p *meteredProvider) spent() cost.Usage {
	whole, broken := p.Total()
	return whole.Add(broken)
}

// holdsNoKey looks for the provider's key in all that the store and Temporal keep of a session.
func (w *world) holdsNoKey(sessionID string) {
	w.t.Helper()
	require.NoError(w.t, filepath.WalkDir(w.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(w.t, string(data), providerKey, path)
		return err
	}))
	events := w.client().GetWorkflowHistory(w.t.Context(), sessionID, "", false, 0)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(w.t, err)
		require.NotContains(w.t, e.String(), providerKey)
	}
}

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
					reply.Calls = []providertest.Call{clitest.Run(m.preset, r, change)}
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

// client speaks to the server until the test ends.
func (w *world) client() client.Client {
	w.t.Helper()
	c, err := client.Dial(client.Options{HostPort: w.address, Namespace: w.namespace, Logger: quiet})
	require.NoError(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}
