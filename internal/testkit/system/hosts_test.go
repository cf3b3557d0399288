//go:build system

package system

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestWorkGoesOnWithoutOneService lets hosts lose the database or Temporal for longer than a lease lasts, while another host
// serves the same queues: the agent that was at work goes on, and nobody repeats it. [TestHostsLoseEachOther] has the failures
// after which another host does the work.
func TestWorkGoesOnWithoutOneService(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	lost := map[string]func(*host) *postgrestest.Proxy{
		"no-database": func(o *host) *postgrestest.Proxy { return o.database },
		"no-temporal": func(o *host) *postgrestest.Proxy { return o.temporal },
	}
	first, agents := map[string]*host{}, []string{}
	for name := range lost {
		first[name], agents = h.start("host-"+name, name), append(agents, name)
		team := fmt.Sprintf("version: 1\nname: one\npersonas: {builder: {role: Builder, agent: %s, instructions: Build it.}}\n"+
			"phases: [{name: build, personas: [builder], produces: [made.txt]}]\n", name)
		h.must("run", h.write(name+"-team.yaml", team), "Build it.", "--session", name)
	}
	for name := range lost {
		h.eventually("the agent works", func() bool { return len(h.processesOf(name)) > 0 })
	}
	h.start("other", agents...)
	failed := time.Now()
	for name, service := range lost {
		service(first[name]).SetDown(true)
	}
	h.eventually("the failure lasts", func() bool { return time.Since(failed) > session.LeaseLasts+15*time.Second })
	for name, service := range lost {
		service(first[name]).SetDown(false)
	}
	for name := range lost {
		s := h.completes(name)
		require.Len(t, h.processesOf(name), 1, "%s: processes at work, one after the other", name)
		require.Equal(t, 1, s.Phases[0].Assignments[0].Attempts, name)
		require.Equal(t, 1, s.Phases[0].Assignments[0].Rounds, name)
	}
	h.must("checkpoints", "verify", "--all")
}
