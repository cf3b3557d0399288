package egress

import (
	"crypto/tls"
	"encoding/base64"
	"net"
)

// Credential is a header that the proxy sets in requests for a host, if they come over TLS.
type Credential struct {
	Host          Host
	Header, Value string
}

// Basic is the value of an Authorization header with a user's name and password.
func Basic(username, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

// credential finds that of a target; nil: there is none.
func (p *Proxy) credential(t target) *Credential {
	for i, c := range p.options.Credentials {
		if c.Host.has(t) {
			return &p.options.Credentials[i]
		}
	}
	return nil
}

// terminate is the server of TLS to a host with a credential, and has the requests handled.
func (r *served) terminate(client net.Conn, t target) (handed bool) {
	leaf, err := r.options.Authority.leaf(t.name)
	if err != nil {
		r.record.add(Failed, t.String(), err.Error())
		return false
	}
	c := tls.Server(client, &tls.Config{Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	if err := c.HandshakeContext(r.ctx); err != nil {
		r.record.add(Failed, t.String(), "TLS of the program failed, which has to trust the file that SSL_CERT_FILE names: "+err.Error())
		return false
	}
	return r.hand(c, destination{"https", t})
}
