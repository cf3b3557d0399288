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
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
	"github.com/maestro-hive/maestro/worker/telemetry/telemetrytest"
)

// askArgument makes the test binary an agent program that asks a model for one part after the other, and
// begins with the first whenever it is started.
const askArgument = "__test-ask"

func askForParts() int {
	for part := range paidTurns {
		body := fmt.Sprintf(`{"model":"m","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"write part %02d"}]}`, part)
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

// TestAFailedCallOpensTheBreaker of the provider, and no call follows until it is closed. The attempt
// continues where it was.
func TestAFailedCallOpensTheBreaker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var down atomic.Bool
	down.Store(true)
	server := providertest.New(t, func(r providertest.Request) providertest.Reply {
		if down.Load() && bytes.Contains(r.Body, []byte("part 02")) {
			return providertest.Failing(providertest.Fault{Status: 529, Type: "overloaded_error", Message: "busy", Header: http.Header{"Retry-After-Ms": {"1"}}})
		}
		return providertest.Reply{Text: "a part", Usage: callCost}
	})
	team := w.withAsker(server, "none", 100_000)
	w.startWorker()
	w.must("run", team, "parts", "--session", "held")
	w.waits("held")
	require.Equal(t, 2+1, server.Count())
	b := w.breaker("p")
	require.Equal(t, session.BreakerIsOpen, b.State)
	require.Equal(t, 1, b.Failures)
	down.Store(false)
	w.must("breaker", "reset", "p", "--why", "it works again")
	s := w.completes("held")
	require.Equal(t, paidTurns+1, server.Count())
	require.Equal(t, int64(paidTurns*110), s.Usage.Tokens())
	require.Equal(t, 1, s.Phases[0].Assignments[0].Attempts)
	require.Zero(t, s.Unsettled)
}

// TestCallsThroughTheGatewayAreShownAndTraced follows a session, and takes what its worker exports.
func TestCallsThroughTheGatewayAreShownAndTraced(t *testing.T) {
	t.Parallel()
	w, collector := newWorld(t), telemetrytest.Receive(t)
	release := make(chan struct{})
	server := providertest.New(t, func(r providertest.Request) providertest.Reply {
		reply := providertest.Reply{Text: "an unmistakable part", Usage: callCost}
		if bytes.Contains(r.Body, []byte("part 02")) {
			reply.Fault.Hold = func(int) <-chan struct{} { return release }
		}
		return reply
	})
	w.variables = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL}
	team := w.withAsker(server, "none", 100_000)
	worker := w.startWorker()
	w.must("run", team, "parts", "--session", "shown")
	follower := w.start(filepath.Join(programs, "maestro"), "logs", "shown", "-f")
	w.eventually("the call that waits for its answer is shown", func() bool {
		return strings.Contains(follower.output.String(), "write/writer | ? user: write part 02")
	})
	require.Equal(t, 2, strings.Count(follower.output.String(), "an unmistakable part"))
	close(release)
	w.completes("shown")
	logs := w.must("logs", "shown", "--full")
	for part := range paidTurns {
		require.Regexp(t, fmt.Sprintf(`(?m)^ *-- call %d at \d\d:\d\d:\d\d to p: m\n *\? user: write part %02d\n *an unmistakable part\n *-- call %d: end_turn after .*; tokens: 100 in, 10 out`,
			part+1, part, part+1), logs)
	}
	worker.signal(syscall.SIGTERM)
	w.dies(worker)
	attempts := collector.Named("attempt write/writer")
	require.Len(t, attempts, 1)
	calls := collector.Named("chat m")
	require.Len(t, calls, paidTurns)
	for _, call := range calls {
		require.Equal(t, attempts[0].SpanId, call.ParentSpanId)
		require.Equal(t, "anthropic", call.Text("gen_ai.provider.name"))
		require.Equal(t, "127.0.0.1", call.Text("server.address"))
		require.Equal(t, "m", call.Text("gen_ai.response.model"))
		require.NotEmpty(t, call.Text("gen_ai.response.id"))
		require.EqualValues(t, 10, call.Int("gen_ai.usage.output_tokens"))
	}
	for _, body := range collector.Bodies() {
		require.NotContains(t, string(body), "unmistakable")
	}
}

// TestANewKeyIsUsedAtTheNextCall of an attempt at work, once the worker has read its file again.
func TestANewKeyIsUsedAtTheNextCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server := providertest.New(t, func(r providertest.Request) providertest.Reply {
		reply := providertest.Reply{Text: "a part", Usage: callCost}
		if bytes.Contains(r.Body, []byte("part 02")) {
			reply.Fault.Hold = func(int) <-chan struct{} {
				once.Do(func() { close(asked) })
				return answer
			}
		}
		return reply
	})
	team := w.withAsker(server, "none", 100_000)
	file, err := os.ReadFile(filepath.Join(w.dir, "agents.yaml"))
	require.NoError(t, err)
	w.write("agents.yaml", strings.Replace(string(file), "key_env: PROVIDER_KEY", "key_file: keys/key", 1))
	w.write("keys/key", "sk-the-first-key")
	worker := w.startWorker()
	w.must("run", team, "parts", "--session", "rotated")
	<-asked
	w.write("keys/key", "sk-the-second-key")
	worker.signal(syscall.SIGHUP)
	w.eventually("the file is read", func() bool { return strings.Contains(worker.output.String(), "worker file reloaded") })
	close(answer)
	w.completes("rotated")
	for i, r := range server.Requests() {
		want := "sk-the-second-key"
		if i < 3 {
			want = "sk-the-first-key"
		}
		require.Equal(t, want, r.Header.Get("X-Api-Key"), "call %d", i)
	}
}
