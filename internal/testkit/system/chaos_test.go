package system

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// The size of the chaos; see `make chaos`.
var (
	chaosSeed     = flag.Uint64("chaos.seed", 1, "what the kills are chosen by")
	chaosSessions = flag.Int("chaos.sessions", 5, "how many sessions run")
	chaosKills    = flag.Int("chaos.kills", 5, "how many kills there are")
	chaosWorkers  = flag.Int("chaos.workers", 2, "how many workers there are")
	chaosWithin   = flag.Duration("chaos.within", 5*time.Minute, "how long it may take in all")
)

const chaosTeam = `version: 1
name: chaos
personas:
  architect: {role: Architect, agent: busy, instructions: Do the phase.}
  backend: {role: Backend, agent: busy, instructions: Do the phase.}
  frontend: {role: Frontend, agent: busy, instructions: Do the phase.}
phases:
  - {name: design, personas: [architect], produces: [design-architect.md], checks: [good]}
  - {name: build, personas: [backend, frontend], produces: ["build-*.md"], checks: [good]}
  - {name: ship, personas: [architect], produces: [ship-architect.md]}
`

// busyAgent works for up to as many tenths of a second as its second argument says, and writes down in the file of the first
// when it began, each 100 ms that it is at work, and when it ended. In flaky sessions its first attempt does not pass.
const busyAgent = `#!/bin/sh
brief=$(cat)
field() { printf '%s\n' "$brief" | sed "s/.*\"$1\":\"\{0,1\}\([^\",]*\).*/\1/"; }
who="$(field session) $(field phase) $(field persona)"
id="$(date +%s%N)-$$"
note() { echo "$(date +%s%N) $1 $who $id" >> "$ledger"; }
ledger=$1
note begin
for i in $(seq $(($(od -An -N1 -tu1 /dev/urandom) * $2 / 255))); do sleep 0.1; note beat; done
file="$(field phase)-$(field persona).md"
echo "the work of $who" > "$file"
case "$(field session)-$(field phase)-$(field attempt)" in *flaky-design-1) echo bad >> "$file";; esac
printf '{"summary":"did it","usage":{"input_tokens":1}}' > "$MAESTRO_RESULT"
note end
`

// chaos kills what runs sessions, again and again.
type chaos struct {
	*world
	random   *rand.Rand
	workers  []*process
	sessions []string
	kills    int
	provider *provider
	// logs are what the workers of hosts have written.
	logs []*proctest.Output
}

// TestChaos kills workers and the server at random moments while sessions run and checkpoints are pruned,
// and holds what comes of it against the promises.
func TestChaos(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := &chaos{
		world: newWorldAlone(t), random: rand.New(rand.NewPCG(*chaosSeed, 0)),
		provider: &provider{random: rand.New(rand.NewPCG(*chaosSeed, 1)), answers: map[string]map[string]int{}},
	}
	model := providertest.New(t, c.provider.answer)
	script := c.write("busy.sh", busyAgent)
	c.write("agents.yaml", "version: 1\n"+c.mounts()+`
agents:
  busy: {kind: command, argv: [`+script+", "+c.ledger("chaos")+`, "3"], concurrency: 100}
  model: {kind: model, provider: p, model: m, concurrency: 100}
providers: {p: {format: anthropic, base_url: "`+model.URL()+`", breaker: {cooldown: 2s, max_cooldown: 4s}}}
checks: {good: {argv: [sh, -c, "! grep -q bad *.md"]}}
`)
	c.write("team.yaml", chaosTeam)
	c.write("model.yaml", chaosModelTeam)
	for range *chaosWorkers {
		c.workers = append(c.workers, c.startWorker())
	}
	for i := range *chaosKills {
		for len(c.sessions) < (i+1)*(*chaosSessions)/(*chaosKills) {
			c.launch()
		}
		if time.Since(began) > *chaosWithin*2/3 {
			break
		}
		<-time.After(time.Duration(c.random.IntN(1500)) * time.Millisecond)
		c.strike()
		// What sessions need has to stay, which the verdict verifies. A worker that is stopped may keep it from pruning.
		c.maestro("checkpoints", "prune", "--keep", "1", "--older-than", "1ms")
	}
	c.settle(began.Add(*chaosWithin))
	v := c.judge()
	fmt.Printf("chaos: seed %d, %d workers, %d sessions, %d kills, %s\n%s", *chaosSeed, len(c.workers),
		len(c.sessions), c.kills, time.Since(began).Round(time.Second), v)
	require.Zero(t, v.faults(), "%s", strings.Join(v.what, "\n"))
}

// launch starts a session and does not wait: the command may see a kill.
func (c *chaos) launch() {
	name := fmt.Sprintf("chaos-%d", len(c.sessions))
	switch c.random.IntN(4) {
	case 0:
		name += "-flaky"
	case 1:
		name += "-model"
	}
	c.sessions = append(c.sessions, name)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	c.t.Cleanup(cancel)
	run := exec.CommandContext(ctx, filepath.Join(programs, "maestro"), c.arguments(name)...)
	run.Env = c.environment()
	require.NoError(c.t, run.Start())
	go func() { _ = run.Wait() }()
}

// arguments start a session with the team that its name stands for.
func (c *chaos) arguments(sessionID string) []string {
	file := "team.yaml"
	if strings.HasSuffix(sessionID, "-model") {
		file = "model.yaml"
	}
	return []string{"run", filepath.Join(c.dir, file), sessionID, "--session", sessionID}
}

// strike kills a worker, the server, or all of them, and starts them again; or it
// stops a worker for a while, or has the provider fail.
func (c *chaos) strike() {
	c.kills++
	victims := []int{c.random.IntN(len(c.workers))}
	dice := c.random.IntN(14)
	switch dice {
	case 0: // all
		victims = nil
		for i := range c.workers {
			victims = append(victims, i)
		}
	case 1, 2: // the server alone
		victims = nil
	case 10, 11: // whatever takes over from the stopped worker must not be harmed by it
		victim := c.workers[victims[0]]
		victim.signal(syscall.SIGSTOP)
		time.AfterFunc(time.Duration(c.random.IntN(15_000))*time.Millisecond, func() { victim.signal(syscall.SIGCONT) })
		return
	case 12, 13:
		c.provider.outage(time.Duration(c.random.IntN(6000)) * time.Millisecond)
		return
	}
	if dice <= 2 {
		c.server.kill()
	}
	for _, i := range victims {
		c.workers[i].signal(syscall.SIGKILL)
	}
	for _, i := range victims {
		<-c.workers[i].done
	}
	if dice <= 2 {
		c.startServer()
	}
	for _, i := range victims {
		c.workers[i] = c.startWorker()
	}
}

// settle waits until every session has ended, and starts those whose command
// was caught by a kill before they were anywhere known.
func (c *chaos) settle(deadline time.Time) {
	for _, sessionID := range c.sessions {
		if c.maestro("status", sessionID, "-o", "json").code != 0 {
			c.maestro(c.arguments(sessionID)...)
		}
	}
	s, open := c.open(), slices.Clone(c.sessions)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for len(open) > 0 && time.Now().Before(deadline) {
		<-tick.C
		open = slices.DeleteFunc(open, func(sessionID string) bool {
			e, err := s.State.Execution(c.t.Context(), session.Key{Namespace: c.namespace, Session: sessionID})
			return err == nil && e.Status.Status.Closed()
		})
	}
}

func (w *world) open() *store.Store {
	w.t.Helper()
	s, err := store.Open(w.state, store.Options{Clock: time.Now, Location: w.location})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}
