package system

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// paidTurns is how many calls the conversations of these tests take.
const paidTurns = 6

// callCost is what the provider says that each call costs.
var callCost = cost.Usage{InputTokens: 100, OutputTokens: 10}

// talk is a model that writes a file in each turn, and finishes in the last.
func talk(r providertest.Request) providertest.Reply {
	turn := r.Turn()
	call := providertest.Call{Name: "write", Arguments: fmt.Sprintf(`{"path":"part-%02d.txt","content":"part %d\n"}`, turn, turn)}
	if turn == paidTurns {
		call = providertest.Call{Name: "finish", Arguments: `{"summary":"all parts are written"}`}
	}
	return providertest.Reply{Calls: []providertest.Call{call}, Usage: callCost}
}

// withModel writes a worker file whose agent is a model behind the server, and a
// team of one persona that works with it.
func (w *world) withModel(s *providertest.Server) (teamFile string) {
	w.write("agents.yaml", fmt.Sprintf(`version: 1
providers:
  p: {format: anthropic, base_url: %q, models: {m: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}}
agents:
  model: {kind: model, provider: p, model: m}
`, s.URL()))
	return w.write("team.yaml", `version: 1
name: writers
personas: {writer: {role: Writer, agent: model, instructions: Write all parts.}}
phases: [{name: write, personas: [writer], produces: ["part-*.txt"]}]
budget: {tokens: 1000000}
`)
}

// TestNoTurnIsPaidForTwice kills the worker behind every single call of a
// conversation, before the call, and after its answer is booked.
func TestNoTurnIsPaidForTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		// at is where each worker dies; deaths is how many do before all is
		// paid for.
		at     string
		deaths int
	}{
		{"call begun@2", paidTurns - 1},
		{"call booked@1", paidTurns},
	} {
		t.Run(c.at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			server := providertest.New(t, talk)
			teamFile := w.withModel(server)
			worker := w.startFragile(c.at)
			w.must("run", teamFile, "parts", "--session", "paid")
			for death := 1; ; death++ {
				w.dies(worker)
				if death == c.deaths {
					break
				}
				worker = w.startFragile(c.at)
			}
			w.startWorker()
			s := w.completes("paid")
			require.Len(t, server.Requests(), paidTurns, "the provider has seen each call once")
			a := s.Phases[0].Assignments[0]
			require.Equal(t, 1, a.Attempts)
			require.Equal(t, c.deaths, a.LostWorkers)
			require.Equal(t, int64(paidTurns*110), s.Usage.Tokens())
			require.Equal(t, cost.USD(paidTurns*(100*3+10*15)*1000), s.Usage.CostUSD)
			w.must("checkpoints", "verify", "--all")
			require.Equal(t, s.Usage, w.costs("paid").Usage)
			require.Zero(t, w.costs("paid").Reserved)
		})
	}
}
