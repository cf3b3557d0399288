package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The ports of an entry without a port.
const (
	portHTTP  = 80
	portHTTPS = 443
)

// Host is an entry of a list of hosts.
type Host struct {
	// name is in lower case, without a dot at its end; with below it matches all names that
	// end in it and have more labels. It is empty for an address.
	name  string
	below bool
	addr  netip.Addr
	// port is zero for the ports of http and https.
	port uint16
}

// namePattern matches the names that the proxy accepts, in lower case and ASCII.
var namePattern = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

// maxName bounds a name, in bytes.
const maxName = 253

// ParseHost reads an entry: a name, *. and a name, or an IP address, each with or without a port.
func ParseHost(text string) (Host, error) {
	var h Host
	rest := text
	if host, port, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Host{}, fmt.Errorf("has the port %q; write a number from 1 to 65535", port)
		}
		rest, h.port = host, uint16(n)
	} else if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		rest = text[1 : len(text)-1]
	}
	if addr, err := netip.ParseAddr(rest); err == nil {
		if addr.Zone() != "" {
			return Host{}, fmt.Errorf("has the zone %q; write the address without one", addr.Zone())
		}
		h.addr = addr.Unmap()
		return h, nil
	}
	if strings.ContainsFunc(rest, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return Host{}, errors.New("has characters that no name in DNS has; write it in its ASCII form, which begins with xn--")
	}
	h.name, h.below = strings.CutPrefix(strings.ToLower(rest), "*.")
	if !isName(h.name) {
		return Host{}, errors.New("is not the name or address of a host; write it like example.com, *.example.com or example.com:8443")
	}
	return h, nil
}

// isName reports whether a text in lower case is a name, and cannot be read as an address:
// some programs read 127.1 and 0x7f.1 as one.
func isName(text string) bool {
	last := text[strings.LastIndexByte(text, '.')+1:]
	return len(text) <= maxName && namePattern.MatchString(text) && (last[0] < '0' || last[0] > '9')
}

// IsAddress reports whether the entry is an IP address.
func (h Host) IsAddress() bool { return h.addr.IsValid() }

// Covers reports whether this entry matches every target of another entry.
func (h Host) Covers(other Host) bool {
	if h.port != other.port && (h.port != 0 || other.port != portHTTP && other.port != portHTTPS) {
		return false
	}
	if other.below {
		return h.below && (h.name == other.name || strings.HasSuffix(other.name, "."+h.name))
	}
	return h.matchesHost(target{name: other.name, addr: other.addr})
}

func (h Host) matchesHost(t target) bool {
	switch {
	case h.IsAddress():
		return h.addr == t.addr
	case h.below:
		return strings.HasSuffix(t.name, "."+h.name)
	}
	return t.name != "" && h.name == t.name
}

// matches reports whether the entry permits a target.
func (h Host) matches(t target) bool {
	return h.matchesHost(t) && (h.port == t.port || h.port == 0 && (t.port == portHTTP || t.port == portHTTPS))
}

// target is a host and port that a request names. Either name or addr is set.
type target struct {
	name string
	addr netip.Addr
	port uint16
}

// parseTarget reads a host and port as requests name them. port is used where there is none.
func parseTarget(authority string, port uint16) (target, error) {
	h, err := ParseHost(trimDot(authority))
	if err != nil {
		return target{}, err
	}
	if h.below {
		return target{}, errors.New("is not the name of a host")
	}
	t := target{name: h.name, addr: h.addr, port: h.port}
	if t.port == 0 {
		t.port = port
	}
	return t, nil
}

// trimDot removes the dot at the end of a name: with and without it is the same host.
func trimDot(authority string) string {
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		return strings.TrimSuffix(authority, ".")
	}
	return net.JoinHostPort(strings.TrimSuffix(host, "."), port)
}

func (t target) host() string {
	if t.addr.IsValid() {
		return t.addr.String()
	}
	return t.name
}

// String returns HOST:PORT.
func (t target) String() string { return net.JoinHostPort(t.host(), strconv.Itoa(int(t.port))) }

// list has the hosts that a room may reach.
type list []Host

func (l list) contains(t target) bool {
	return slices.ContainsFunc(l, func(h Host) bool { return h.matches(t) })
}

// permits reports whether a connection to an address of a listed host is permitted.
func (l list) permits(addr netip.Addr, port uint16) bool {
	return public(addr) || l.contains(target{addr: addr, port: port})
}

// reserved are networks of unicast addresses that are not on the public internet, or whose
// addresses can contain addresses of other networks.
var reserved = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// global are the global unicast addresses of IPv6.
var global = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// public reports whether an address is on the public internet.
func public(addr netip.Addr) bool {
	if addr.Zone() != "" || addr.Is4In6() || addr.Is6() && !global.Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(addr) })
}
