//go:build system

package system

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// providerKey is the key of the providers in these tests.
const providerKey = "sk-the-key-of-the-provider"

// meteredCLI is an agent program that reaches its provider through the gateway.
type meteredCLI struct {
	preset, model string
	format        wire.API
	prices        cost.Prices
	// tokens pay for all steps but the last, and for two answers that are lost.
	tokens int
	// run is the call with which the model runs a shell command.
	run func(r providertest.Request, command string) providertest.Call
}

func meteredCLIs() []meteredCLI {
	return []meteredCLI{
		{
			"claude", "claude-sonnet-4-5", wire.Anthropic,
			cost.Prices{Input: 3e9, Output: 15e9, CacheRead: 3e8, CacheWrite: 375e7, CacheWrite1h: 6e9, WebSearch: 1e10},
			205_000, conversingCLIs["claude"].run,
		},
		{
			"codex", "gpt-5", wire.OpenAI,
			cost.Prices{Input: 125e7, Output: 1e10, CacheRead: 125e6, WebSearch: 1e10},
			70_000,
			conversingCLIs["codex"].run,
		},
		{
			"gemini", "gemini-2.5-pro", wire.Gemini,
			cost.Prices{Input: 125e7, Output: 1e10, CacheRead: 31e7, WebSearch: 35e9},
			82_000,
			func(_ providertest.Request, command string) providertest.Call {
				return providertest.Tool("run_shell_command", map[string]string{"command": command, "description": "work"})
			},
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
	reply.Text, reply.Calls = "The next step of the work is this one.", []providertest.Call{p.run(r, p.command(step))}
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
