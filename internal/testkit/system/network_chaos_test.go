//go:build system

package system

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/postgrestest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
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

// The addresses of the services. Each is one that a host can lose alone.
const (
	poolerAt   = "10.77.0.1"
	temporalAt = "10.77.0.2"
	bucketAt   = "10.77.0.3"
	providerAt = "10.77.0.4"
)

// network is a world of hosts that share nothing but services, to which each is connected by a network of its own. Its
// programs that belong to no host, like those that start sessions, run beside the services.
type network struct {
	*chaos
	postgres *postgrestest.Server
	pooler   *process
	bucket   *s3test.Server
	hosts    []*networkHost
}

// networkHost is a host: a directory, a network and workers. Its world is that of its programs.
type networkHost struct {
	*world
	name    string
	workers []*process
	// down is how many failures keep its workers from being started again.
	down int
	// cut counts the failures that cut an address off.
	cut map[string]int
}

// newNetwork starts the services in this process's own network.
func newNetwork(t *testing.T, c *chaos) *network {
	t.Helper()
	n := &network{chaos: c}
	n.world = emptyWorld(t)
	n.variables = s3test.Environment
	ip(t, "link", "add", "services", "type", "bridge")
	for _, address := range []string{poolerAt, temporalAt, bucketAt, providerAt} {
		ip(t, "address", "add", address+"/24", "dev", "services")
	}
	ip(t, "link", "set", "services", "up")
	n.postgres = postgrestest.Start(t)
	n.bucket = s3test.Start(t, "versitygw", bucketAt+":9000")
	database := n.postgres.NewDatabase()
	n.location = store.Location{
		Database: strings.Replace(database, n.postgres.Address, poolerAt+":6432", 1), Content: s3test.URL(n.bucket.Address, "hosts"),
	}
	n.startPooler()
	n.address, n.namespace = temporalAt+":7233", "default"
	n.startServer()
	l, err := net.Listen("tcp", providerAt+":80")
	require.NoError(t, err)
	providertest.NewOn(t, l, c.provider.answer)
	n.write("agents.yaml", fmt.Sprintf(`version: 1
%s
agents:
  busy: {kind: command, argv: [%q, %q, "%d"], concurrency: 100}
  model: {kind: model, provider: p, model: m, concurrency: 100}
providers: {p: {format: anthropic, base_url: "http://%s", breaker: {cooldown: 2s, max_cooldown: 4s}}}
checks: {good: {argv: [sh, -c, "! grep -q bad *.md"]}}
`, n.mounts(), n.write("busy.sh", busyAgent), n.ledger("chaos"), networkBeats, providerAt))
	n.write("team.yaml", chaosTeam)
	n.write("model.yaml", chaosModelTeam)
	return n
}

// startPooler starts pgbouncer, which gives each transaction any connection.
func (n *network) startPooler() {
	n.t.Helper()
	host, port, err := net.SplitHostPort(n.postgres.Address)
	require.NoError(n.t, err)
	require.NoError(n.t, os.Chmod(n.dir, 0o755)) // pgbouncer runs as another user
	file := n.write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = %s
listen_port = 6432
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 300
server_login_retry = 1
`, host, port, poolerAt))
	n.pooler = n.start("pgbouncer", "--user=postgres", "--quiet", file)
	n.eventually("pgbouncer listens", func() bool {
		c, err := net.Dial("tcp", poolerAt+":6432")
		return err == nil && c.Close() == nil
	})
}

// addHost adds a host with so many workers, which n.supervise starts. A table of its firewall drops what comes from, and goes
// to, the addresses of a set: nothing is refused.
func (n *network) addHost(workers int) *networkHost {
	n.t.Helper()
	name := string(rune('a' + len(n.hosts)))
	w := *n.world
	h := &networkHost{world: &w, name: name, workers: make([]*process, workers), cut: map[string]int{}}
	h.dir, h.network = filepath.Join(n.dir, "host-"+name), "/run/netns/"+name
	h.state = filepath.Join(h.dir, "state")
	require.NoError(n.t, os.Mkdir(h.dir, 0o755))
	ip(n.t, "netns", "add", name)
	ip(n.t, "link", "add", "host-"+name, "type", "veth", "peer", "name", "eth0", "netns", name)
	ip(n.t, "link", "set", "host-"+name, "master", "services", "up")
	ip(n.t, "-n", name, "address", "add", fmt.Sprintf("10.77.0.%d/24", 100+len(n.hosts)), "dev", "eth0")
	for _, device := range []string{"lo", "eth0"} {
		ip(n.t, "-n", name, "link", "set", device, "up")
	}
	h.nft(`table ip cut {
		set cut { type ipv4_addr; }
		chain in { type filter hook input priority 0; ip saddr @cut drop; }
		chain out { type filter hook output priority 0; ip daddr @cut drop; }
	}`)
	h.variables = append(slices.Clone(n.variables), "MAESTRO_AGENTS="+filepath.Join(n.dir, "agents.yaml"))
	n.hosts = append(n.hosts, h)
	return h
}

// supervise starts the workers that have ended again, as systemd would.
func (n *network) supervise() {
	n.t.Helper()
	for _, h := range n.hosts {
		for i, worker := range h.workers {
			if h.down == 0 && (worker == nil || ended(worker)) {
				h.workers[i] = h.start(filepath.Join(programs, "maestro-worker"), "--drain", "1s")
				n.logs = append(n.logs, h.workers[i].output)
			}
		}
	}
}

// busiest is the worker with the most processes at work.
func (h *networkHost) busiest() (worker *process, processes int) {
	for _, p := range h.workers {
		below := 0
		if !ended(p) {
			below = len(proctree.Below(p.cmd.Process.Pid))
		}
		if worker == nil || below > processes {
			worker, processes = p, below
		}
	}
	return worker, processes
}

func ended(p *process) bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends all processes of a host as a power failure does.
func (h *networkHost) kill() {
	h.t.Helper()
	var roots []int
	for _, worker := range h.workers {
		if worker != nil && !ended(worker) {
			roots = append(roots, worker.cmd.Process.Pid)
		}
	}
	proctest.KillTrees(h.t, roots...)
}

// disconnect drops every packet between the host and addresses, until the returned function is called.
func (h *networkHost) disconnect(addresses ...string) (reconnect func()) {
	h.t.Helper()
	for _, address := range addresses {
		if h.cut[address]++; h.cut[address] == 1 {
			h.nft("add element ip cut cut { " + address + " }")
		}
	}
	return func() {
		for _, address := range addresses {
			if h.cut[address]--; h.cut[address] == 0 {
				h.nft("delete element ip cut cut { " + address + " }")
			}
		}
	}
}

func (h *networkHost) nft(rules string) {
	h.t.Helper()
	out, err := h.command(h.t.Context(), "nft", rules).CombinedOutput()
	require.NoError(h.t, err, "nft %s: %s", rules, out)
}

// ip runs the program of iproute2.
func ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(t, err, "ip %s: %s", strings.Join(args, " "), out)
}

// serving waits until every worker serves.
func (n *network) serving() {
	n.t.Helper()
	n.eventually("every worker serves", func() bool {
		n.supervise()
		return !slices.ContainsFunc(n.hosts, func(h *networkHost) bool {
			return slices.ContainsFunc(h.workers, func(p *process) bool {
				return p == nil || !strings.Contains(p.output.String(), "worker serves")
			})
		})
	})
}

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
