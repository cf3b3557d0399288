package agent

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/egress"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// Network is what processes reach in a room: host, none, or a list of hosts. Empty means host.
type Network []string

// UnmarshalText reads a word.
func (n *Network) UnmarshalText(word []byte) error {
	*n = Network{string(word)}
	return nil
}

// word returns the network mode of the room.
func (n Network) word() room.Network {
	if len(n) == 0 || slices.Equal(n, Network{string(room.NetworkHost)}) {
		return room.NetworkHost
	}
	return room.NetworkNone
}

// offline reports whether the providers of an agent must not reach the web for it.
func (d Definition) offline() bool { return d.Network.word() != room.NetworkHost && !d.WebTools }

// list returns the network's list of hosts; nil: it is a word.
func (n Network) list() []string {
	if n.word() == room.NetworkHost || slices.Equal(n, Network{string(room.NetworkNone)}) {
		return nil
	}
	return n
}

// hosts returns the parsed list of hosts. Validation has rejected invalid ones.
func (n Network) hosts() (hosts []egress.Host) {
	for _, text := range n.list() {
		if h, err := egress.ParseHost(text); err == nil {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// network checks a network and its hosts.
func (v *validator) network(path string, n Network) {
	if n.word() == room.NetworkHost {
		return
	}
	if v.config.WithDefaults().Isolation == IsolationNone {
		v.add(path, "needs rooms; write `isolation: required`, or `auto`, or leave network out")
		return
	}
	for i, text := range n.list() {
		if _, err := egress.ParseHost(text); err != nil {
			v.add(spec.ItemPath(path, i), "%v", err)
		}
	}
}

// proxyPort is the port of the proxy in a room.
const proxyPort = 3128

// allowOnly makes only the hosts of a list reachable in a room.
func (p *place) allowOnly(hosts []egress.Host, s *Set) {
	proxy := egress.New(hosts, s.o.Egress)
	p.services = append(p.services, procgroup.Service{Port: proxyPort, Serve: func(l net.Listener, log *procgroup.Capture) {
		proxy.Serve(l, func(format string, args ...any) { log.Note("%s", s.Mask(fmt.Sprintf(format, args...))) })
	}})
	address, own := fmt.Sprintf("http://127.0.0.1:%d", proxyPort), "localhost,127.0.0.1,::1"
	p.variables = map[string]string{"NODE_USE_ENV_PROXY": "1"}
	for name, value := range map[string]string{"HTTP_PROXY": address, "HTTPS_PROXY": address, "NO_PROXY": own} {
		p.variables[name], p.variables[strings.ToLower(name)] = value, value
	}
}

// networkFailure returns the failure of a process whose network is restricted if there are no rooms; nil:
// it can be started.
func (s *Set) networkFailure(subject string, n Network) *failures.Failure {
	if s.rooms || n.word() == room.NetworkHost {
		return nil
	}
	return &failures.Failure{
		Category: failures.ResourceError, Final: true,
		Message: s.message("%s was not started: its network is restricted, which takes a room, and this host permits none: %v; do "+
			"what that says, or remove network from the worker file", subject, s.noRooms),
	}
}

// Restricted lists the agents and checks whose network is restricted. They are not started if
// there are no rooms.
func (c Config) Restricted() (subjects []string) {
	for name, d := range c.Agents {
		if d.Network.word() != room.NetworkHost {
			subjects = append(subjects, "agent "+name)
		}
	}
	for name, d := range c.Checks {
		if d.Network.word() != room.NetworkHost {
			subjects = append(subjects, "check "+name)
		}
	}
	slices.Sort(subjects)
	return subjects
}
