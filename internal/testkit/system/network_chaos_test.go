//go:build system

package system

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/internal/testkit/s3test"
)

// networkSessions is the size of the chaos of hosts; its seed is that of the other chaos.
var networkSessions = flag.Int("chaos.network-sessions", 8, "how many sessions run on hosts that lose each other")

const (
	// networkBeats is how long an agent works at most, in tenths of a second.
	networkBeats = 140
	// startsWithin is the time in which sessions and failures start.
	startsWithin = 45 * time.Second
	// pastLease is longer than a lease lasts.
	pastLease = session.LeaseLasts + 5*time.Second
)

// failure is something that happens to a service or a host, and lasts for a while.
type failure struct {
	name        string
	least, most time.Duration
	// strike lets it happen; heal ends it.
	strike func(n *network, h *networkHost) (heal func())
}

func kills(kill, resume func(n *network)) func(*network, *networkHost) func() {
	return func(n *network, _ *networkHost) func() {
		kill(n)
		return func() { resume(n) }
	}
}

func cuts(addresses ...string) func(*network, *networkHost) func() {
	return func(_ *network, h *networkHost) func() { return h.disconnect(addresses...) }
}

var networkFailures = []failure{
	{"kill a worker", 0, 0, func(_ *network, h *networkHost) func() {
		worker, _ := h.busiest()
		worker.signal(syscall.SIGKILL)
		return func() {}
	}},
	{"kill a host", 0, pastLease, func(_ *network, h *networkHost) func() {
		h.down++
		h.kill()
		return func() { h.down-- }
	}},
	{"stop a worker", pastLease, pastLease + 5*time.Second, func(_ *network, h *networkHost) func() {
		worker, _ := h.busiest()
		worker.signal(syscall.SIGSTOP)
		return func() { worker.signal(syscall.SIGCONT) }
	}},
	{"kill PostgreSQL", 0, 8 * time.Second, kills(func(n *network) { n.postgres.Kill() }, func(n *network) { n.postgres.Resume() })},
	{"kill pgbouncer", 0, 8 * time.Second, kills(func(n *network) { n.pooler.kill() }, (*network).startPooler)},
	{"kill Temporal", 0, 8 * time.Second, kills(func(n *network) { n.server.kill() }, func(n *network) { n.startServer() })},
	{"kill the bucket", 0, 20 * time.Second, kills(func(n *network) { n.bucket.Kill() }, func(n *network) { n.bucket.Resume() })},
	{"cut from PostgreSQL", 5 * time.Second, pastLease, cuts(poolerAt)},
	{"cut from Temporal", 5 * time.Second, pastLease, cuts(temporalAt)},
	{"cut from the bucket", 5 * time.Second, pastLease, cuts(bucketAt)},
	{"cut from all", pastLease, pastLease + 5*time.Second, cuts(poolerAt, temporalAt, bucketAt, providerAt)},
}

// event is something that the schedule does at a time after its begin.
type event struct {
	at   time.Duration
	what string
	do   func()
}

// schedule draws when each failure happens, to which host if both have agents, and for how long, and when sessions start.
func (n *network) schedule() (events []event) {
	add := func(at time.Duration, what string, do func()) { events = append(events, event{at, what, do}) }
	for i, f := range n.random.Perm(len(networkFailures)) {
		f := networkFailures[f]
		at := (time.Duration(i)*startsWithin + rand64(n.random, startsWithin)) / time.Duration(len(networkFailures))
		lasts := f.least + rand64(n.random, f.most-f.least)
		first := n.random.IntN(len(n.hosts))
		var heal func()
		what := fmt.Sprintf("%s (for %s)", f.name, lasts.Round(time.Millisecond))
		add(at, what, func() { heal = f.strike(n, n.victim(first)) })
		add(at+lasts, "end: "+what, func() { heal() })
	}
	for i := range *networkSessions {
		add(time.Duration(i)*startsWithin/time.Duration(*networkSessions), "a session starts", n.launch)
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	return events
}

// victim is a host that is up; one with agents at work if there is one.
func (n *network) victim(first int) (victim *networkHost) {
	most := -1
	for i := range n.hosts {
		h := n.hosts[(first+i)%len(n.hosts)]
		if _, agents := h.busiest(); h.down == 0 && min(agents, 1) > most {
			victim, most = h, min(agents, 1)
		}
	}
	fmt.Printf("        host %s, with agents: %t\n", victim.name, most > 0)
	return victim
}

func rand64(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(d) + 1))
}

// play does what a schedule has, and has ended workers started again meanwhile.
func (n *network) play(events []event) {
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(events) > 0 {
		<-tick.C
		for len(events) > 0 && time.Since(began) >= events[0].at {
			fmt.Printf("%6.2fs %s\n", time.Since(began).Seconds(), events[0].what)
			events[0].do()
			events = events[1:]
		}
		n.supervise()
	}
}

// TestHostsLoseEachOther runs sessions on three hosts that share nothing but PostgreSQL behind pgbouncer, Temporal and a bucket.
// Every one of these, the hosts and their workers are killed or stopped, and each host loses its way to each service alone, so
// that packets vanish. What comes of it is held against the promises.
func TestHostsLoseEachOther(t *testing.T) {
	t.Parallel()
	s3test.Build(t, "versitygw") // in a network of its own, nothing is downloaded
	if !proctest.InNetwork(t, "chaos.", append(s3test.Environment, programsVariable+"="+programs)...) {
		return
	}
	began := time.Now()
	n := newNetwork(t, &chaos{
		random:   rand.New(rand.NewPCG(*chaosSeed, 2)),
		provider: &provider{random: rand.New(rand.NewPCG(*chaosSeed, 3)), answers: map[string]map[string]int{}},
	})
	for _, workers := range []int{2, 1, 1} {
		n.addHost(workers)
	}
	n.serving()
	n.play(n.schedule())
	n.serving()
	healed := time.Since(began)
	n.settle(began.Add(limit))
	settled := time.Since(began)
	v := n.judge()
	n.judgeHosts(v)
	fmt.Printf("hosts: seed %d, %d sessions, healed after %s, all ended after %s\n%s", *chaosSeed, len(n.sessions),
		healed.Round(time.Second), settled.Round(time.Second), v)
	require.Zero(t, v.faults(), "%s", strings.Join(v.what, "\n"))
}

// judgeHosts looks from each host at what both have stored.
func (n *network) judgeHosts(v *verdict) {
	for _, h := range n.hosts {
		if a := h.maestro("checkpoints", "verify", "--all"); a.code != 0 {
			v.fault(&v.stored, "host %s: %s%s", h.name, a.stdout, a.stderr)
		}
		for _, p := range h.agents() {
			v.fault(&v.processes, "left behind on host %s: %s", h.name, p)
		}
		for _, sessionID := range n.sessions {
			file, want := "design-architect.md", "the work of "+sessionID+" design architect\n"
			if strings.HasSuffix(sessionID, "-model") {
				file, want = "", ""
			}
			dir := filepath.Join(h.dir, "files", sessionID)
			a := h.maestro(append([]string{"artifacts", "get", sessionID, "--out", dir}, strings.Fields(file)...)...)
			got, err := os.ReadFile(filepath.Join(dir, file))
			if file != "" && (err != nil || string(got) != want) || a.code != 0 {
				v.fault(&v.lost, "host %s does not read %s of %s: %s%s", h.name, file, sessionID, a.stderr, got)
			}
		}
	}
}
