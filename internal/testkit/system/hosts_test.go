//go:build system

package system

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/postgrestest"
)

// tickingAgent notes every 100 ms that it is at work, for longer than a lease lasts.
const tickingAgent = `version: 1
isolation: none
agents:
  coder: {kind: command, timeout: 10m, argv: [/bin/sh, -c, "for i in $(seq 800); do echo $$ >> LEDGER; sleep 0.1; done; echo made > made.txt"]}
`

const oneTeam = `version: 1
name: one
personas: {builder: {role: Builder, agent: coder, instructions: Build it.}}
phases: [{name: build, personas: [builder], produces: [made.txt]}]
`

// hosts is a world with two hosts, which have nothing in common but a database and content, and reach the database and Temporal
// by proxies of their own.
type hosts struct {
	*world
	postgres *postgrestest.Server
	database string
	first    *host
}

// host is a host with one worker.
type host struct {
	worker             *process
	database, temporal *postgrestest.Proxy
}

func newHosts(t *testing.T, postgres *postgrestest.Server) *hosts {
	t.Helper()
	w := newWorldAlone(t)
	h := &hosts{world: w, postgres: postgres, database: postgres.NewDatabase()}
	w.write("agents.yaml", strings.Replace(tickingAgent, "LEDGER", w.ledger("ticks"), 1))
	content := filepath.Join(w.dir, "content")
	require.NoError(t, os.Mkdir(content, 0o700))
	w.location = store.Location{Database: h.database, Content: "file://" + content}
	h.first = h.start("first")
	return h
}

// start starts a host with its worker.
func (h *hosts) start(name string) *host {
	h.t.Helper()
	one := &host{database: postgrestest.StartProxy(h.t, h.postgres.Address), temporal: postgrestest.StartProxy(h.t, h.address)}
	one.worker = h.serves(h.startWith([]string{
		"MAESTRO_STATE_DIR=" + filepath.Join(h.dir, name), "TEMPORAL_ADDRESS=" + one.temporal.Address,
		"MAESTRO_STORE=" + strings.Replace(h.database, h.postgres.Address, one.database.Address, 1),
	}, filepath.Join(programs, "maestro-worker"), "--drain", "1s"))
	return one
}

// ticks are the processes of agents that were at work, in the order in which they noted it.
func (h *hosts) ticks() (agents []string, count int) {
	h.t.Helper()
	data, err := os.ReadFile(h.ledger("ticks"))
	if os.IsNotExist(err) {
		return nil, 0
	}
	require.NoError(h.t, err)
	all := strings.Fields(string(data))
	return slices.Compact(slices.Clone(all)), len(all)
}

// TestNoTwoHostsExecuteAnAssignment lets the host of an agent fail in different ways while a second host serves the same queue.
func TestNoTwoHostsExecuteAnAssignment(t *testing.T) {
	t.Parallel()
	postgres := postgrestest.Start(t)
	for name, c := range map[string]struct {
		fail func(*hosts)
		heal func(*hosts)
		// agents is how many agents do the work, one after the other.
		agents int
	}{
		"its worker is killed":                  {func(h *hosts) { h.first.worker.kill() }, nil, 2},
		"it is stopped for longer than a lease": {func(h *hosts) { h.first.worker.signal(syscall.SIGSTOP) }, func(h *hosts) { h.first.worker.signal(syscall.SIGCONT) }, 2},
		"it does not reach the database": {
			func(h *hosts) { h.first.database.SetDown(true) },
			func(h *hosts) { h.first.database.SetDown(false) }, 1,
		},
		"it does not reach Temporal": {
			func(h *hosts) { h.first.temporal.SetDown(true) },
			func(h *hosts) { h.first.temporal.SetDown(false) }, 1,
		},
		"it reaches neither": {
			func(h *hosts) { h.first.database.SetDown(true); h.first.temporal.SetDown(true) },
			func(h *hosts) { h.first.database.SetDown(false); h.first.temporal.SetDown(false) }, 2,
		},
		"Temporal is killed": {func(h *hosts) { h.server.kill() }, func(h *hosts) { h.startServer() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t, postgres)
			h.must("run", h.write("team.yaml", oneTeam), "Build it.", "--session", "one")
			h.eventually("the agent works", func() bool { _, n := h.ticks(); return n > 0 })
			second := h.start("second")
			c.fail(h)
			if c.heal != nil {
				failed := time.Now()
				h.eventually("the failure lasts", func() bool {
					agents, _ := h.ticks()
					return len(agents) > 1 || time.Since(failed) > session.LeaseLasts+15*time.Second
				})
				c.heal(h)
			}
			s := h.completes("one")
			agents, _ := h.ticks()
			require.Len(t, agents, c.agents, "agents, each of which had ended before the next began")
			require.Equal(t, 1, s.Phases[0].Assignments[0].Attempts)
			require.Equal(t, 1, s.Phases[0].Assignments[0].Rounds)
			h.must("checkpoints", "verify", "--all")
			_ = second
		})
	}
}
