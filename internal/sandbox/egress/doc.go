// Package egress is the HTTP proxy through which the processes of a room reach the hosts that
// a worker file lists for them. The room has no other network.
//
// The proxy checks the host and port of each request. It resolves names itself, refuses addresses
// that are not public unless they are listed, and connects to the addresses that it has checked.
// A tunnel is for TLS to the host of its CONNECT request. TLS to a host with a [Credential] ends
// in the proxy, which adds the credential and forwards requests to that host only. Other TLS in a
// tunnel stays encrypted.
//
// Start reading in proxy.go:
//
//	proxy.go       whether a host and an address may be reached (checkTarget, dial), how long a connection may be idle, and
//	               the largest header
//	hosts.go       which entries a list of hosts may have, what each permits, and which addresses are public
//	tunnel.go      what a tunnel may carry, and that its TLS names the host and does not hide it
//	forward.go     which requests in a tunnel are refused: for another host, of methods that return the credential, or to a
//	               proxy
//	credential.go  which requests get a credential; authority.go: how long the certificates for its host are valid
//	record.go      what is logged of requests, and for how many targets; conn.go: that idle connections are closed, and bytes
//	               counted
package egress
