package system

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// paidTurns is how many calls the conversations of these tests take.
const paidTurns = 6

// callCost is what the provider says that each call costs.
var callCost = cost.Usage{InputTokens: 100, OutputTokens: 10}

// askArgument makes the test binary an agent program that asks a model for one part after the other, and
// begins with the first whenever it is started.
const askArgument = "__test-ask"

func askForParts() int {
	for part := range paidTurns {
		body := fmt.Sprintf(`{"model":"m","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"write part %02d"}]}`,
			part)
		r, err := http.NewRequest(http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		r.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY"))
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		answer, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			fmt.Println(response.StatusCode, err, string(answer))
			return 1
		}
		if err := os.WriteFile(fmt.Sprintf("part-%02d.txt", part), answer, 0o600); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

// providerKey is the key of the provider in these tests.
const providerKey = "sk-the-key-of-the-provider"

// withAsker writes a worker file whose agent asks the server through the gateway, and a team with a budget.
func (w *world) withAsker(s *providertest.Server, isolation string, tokens int) (teamFile string) {
	program, err := os.Executable()
	require.NoError(w.t, err)
	w.variables = append(w.variables, "PROVIDER_KEY="+providerKey)
	network := "host"
	if isolation != "none" {
		network = "none"
	}
	w.write("agents.yaml", fmt.Sprintf(`version: 1
isolation: %s
providers:
  p: {format: anthropic, base_url: %q, key_env: PROVIDER_KEY, breaker: {threshold: 1}, models: {m: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}}
agents:
  asker: {kind: command, argv: [%q, %s], gateway: [p], network: %s}
`, isolation, s.URL(), program, askArgument, network))
	return w.write("team.yaml", fmt.Sprintf(`version: 1
name: writers
personas: {writer: {role: Writer, agent: asker, instructions: Write all parts.}}
phases: [{name: write, personas: [writer], produces: ["part-*.txt"]}]
budget: {tokens: %d, on_exceeded: ask, warn_at: [0.1]}
`, tokens))
}

// TestTheGatewayCounts kills a worker in the middle of a call, and has a budget be spent in the middle of an
// attempt. No answer is paid for twice, and the books have what the provider has counted.
func TestTheGatewayCounts(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"none", "required"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if isolation == "required" {
				permitsRooms(t)
			}
			var held sync.Once
			asked := make(chan struct{})
			server := providertest.New(t, func(r providertest.Request) providertest.Reply {
				reply := providertest.Reply{Text: "a part", Usage: callCost}
				if bytes.Contains(r.Body, []byte("part 02")) {
					held.Do(func() {
						reply.Fault.Hold = func(int) <-chan struct{} { close(asked); return make(chan struct{}) }
					})
				}
				return reply
			})
			// The call that is killed is counted with an estimate.
			team := w.withAsker(server, isolation, 5*110)
			worker := w.startWorker()
			w.must("run", team, "parts", "--session", "counted")
			<-asked
			worker.kill()
			w.startWorker()
			w.shows("counted", "a request for a budget", func(s session.Status) bool { return len(s.Help) > 0 })
			require.LessOrEqual(t, w.status("counted").Usage.Tokens(), int64(5*110))
			w.must("budget", "raise", "counted", "--tokens", "1000")
			s := w.completes("counted")

			require.Equal(t, paidTurns+1, server.Count(), "each call once, and the one again that was cut off")
			whole, _ := server.Total()
			require.Equal(t, whole.Tokens(), s.Usage.Tokens())
			require.Equal(t, cost.USD(paidTurns*(100*3+10*15)*1000), s.Usage.CostUSD)
			require.Positive(t, s.Unsettled.Tokens())
			a := s.Phases[0].Assignments[0]
			require.Equal(t, 1, a.Attempts)
			require.Equal(t, 1, a.LostWorkers)
			require.Equal(t, s.Usage, w.costs("counted").Usage)
			require.Zero(t, w.costs("counted").Reserved)
			require.Equal(t, providerKey, server.Requests()[0].Header.Get("X-Api-Key"))
			require.NoError(t, filepath.WalkDir(w.state, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				data, err := os.ReadFile(path)
				require.NotContains(t, string(data), providerKey, path)
				return err
			}))
			w.must("checkpoints", "verify", "--all")
		})
	}
}
