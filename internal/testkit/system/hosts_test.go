//go:build system

package system

import (
	"fmt"
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

// hosts is a world with several hosts, which have nothing in common but a database and content, and reach the database and
// Temporal by proxies of their own.
type hosts struct {
	*world
	postgres *postgrestest.Server
}

// host is a host with one worker.
type host struct {
	worker             *process
	database, temporal *postgrestest.Proxy
}

func newHosts(t *testing.T) *hosts {
	t.Helper()
	h := &hosts{newWorldAlone(t), postgrestest.Start(t)}
	h.location = store.Location{Database: h.postgres.NewDatabase(), Content: "file://" + filepath.Join(h.dir, "content")}
	return h
}

// start starts a host whose worker offers agents. Each notes every 100 ms that it is at work, for longer than a lease lasts.
func (h *hosts) start(name string, agents ...string) *host {
	h.t.Helper()
	file := "version: 1\nisolation: none\n" + h.mounts() + "\nagents:\n"
	for _, agent := range agents {
		file += fmt.Sprintf("  %s: {kind: command, timeout: 10m, argv: [/bin/sh, -c, 'for i in $(seq 600); do echo $$ >> %s; "+
			"sleep 0.1; done; echo made > made.txt']}\n", agent, h.ledger(agent))
	}
	one := &host{database: postgrestest.StartProxy(h.t, h.postgres.Address), temporal: postgrestest.StartProxy(h.t, h.address)}
	one.worker = h.serves(h.startWith([]string{
		"MAESTRO_AGENTS=" + h.write(name+".yaml", file),
		"MAESTRO_STATE_DIR=" + filepath.Join(h.dir, name), "TEMPORAL_ADDRESS=" + one.temporal.Address,
		"MAESTRO_STORE=" + strings.Replace(h.location.Database, h.postgres.Address, one.database.Address, 1),
	}, filepath.Join(programs, "maestro-worker"), "--drain", "1s"))
	return one
}

// processes are those of an agent that were at work, in the order in which they noted it.
func (h *hosts) processesOf(agent string) []string {
	h.t.Helper()
	data, err := os.ReadFile(h.ledger(agent))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(h.t, err)
	return slices.Compact(strings.Fields(string(data)))
}

// TestNoTwoHostsExecuteAnAssignment lets hosts fail in different ways while their agents work, and another host serves the same
// queues: an agent has ended before another one begins.
func TestNoTwoHostsExecuteAnAssignment(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	failures := map[string]struct {
		fail, heal func(*host)
		// processes is how many do the work, one after the other.
		processes int
	}{
		"killed":  {func(o *host) { o.worker.kill() }, func(*host) {}, 2},
		"stopped": {func(o *host) { o.worker.signal(syscall.SIGSTOP) }, func(o *host) { o.worker.signal(syscall.SIGCONT) }, 2},
		"no-database": {
			func(o *host) { o.database.SetDown(true) },
			func(o *host) { o.database.SetDown(false) }, 1,
		},
		"no-temporal": {
			func(o *host) { o.temporal.SetDown(true) },
			func(o *host) { o.temporal.SetDown(false) }, 1,
		},
		"neither": {
			func(o *host) { o.database.SetDown(true); o.temporal.SetDown(true) },
			func(o *host) { o.database.SetDown(false); o.temporal.SetDown(false) }, 2,
		},
	}
	first, agents := map[string]*host{}, []string{}
	for name := range failures {
		first[name], agents = h.start("host-"+name, name), append(agents, name)
		team := fmt.Sprintf("version: 1\nname: one\npersonas: {builder: {role: Builder, agent: %s, instructions: Build it.}}\n"+
			"phases: [{name: build, personas: [builder], produces: [made.txt]}]\n", name)
		h.must("run", h.write(name+"-team.yaml", team), "Build it.", "--session", name)
	}
	for name := range failures {
		h.eventually("the agent works", func() bool { return len(h.processesOf(name)) > 0 })
	}
	h.start("other", agents...)
	failed := time.Now()
	for name, f := range failures {
		f.fail(first[name])
	}
	h.eventually("the failure lasts", func() bool { return time.Since(failed) > session.LeaseLasts+15*time.Second })
	for name, f := range failures {
		f.heal(first[name])
	}
	for name, f := range failures {
		s := h.completes(name)
		require.Len(t, h.processesOf(name), f.processes, "%s: processes, each of which had ended before the next began", name)
		require.Equal(t, 1, s.Phases[0].Assignments[0].Attempts, name)
		require.Equal(t, 1, s.Phases[0].Assignments[0].Rounds, name)
	}
	h.must("checkpoints", "verify", "--all")
}
