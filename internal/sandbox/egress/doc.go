// Package egress is the HTTP proxy through which the processes of a room reach the hosts that
// a worker file lists for them. The room has no other network.
//
// The proxy checks the host and port of each request. It resolves names itself, refuses addresses
// that are not public unless they are listed, and connects to the addresses that it has checked.
// A tunnel is for TLS to the host of its CONNECT request. TLS to a host with a [Credential] ends
// in the proxy, which adds the credential and forwards requests to that host only. Other TLS in a
// tunnel stays encrypted.
package egress
