package egress

import (
	"crypto/tls"
	"encoding/base64"
	"net"
)

// Credential is a header that the proxy sets in requests to a host over TLS.
type Credential struct {
	Host          Host
	Header, Value string
}

// Basic returns the value of an Authorization header with a user's name and password.
func Basic(username, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

// credentialFor returns the credential of a target; nil: there is none.
func (p *Proxy) credentialFor(t target) *Credential {
	for i, c := range p.options.Credentials {
		if c.Host.matches(t) {
			return &p.options.Credentials[i]
		}
	}
	return nil
}

// terminateTLS is the TLS server for a host with a credential. It passes the connection to the handler of requests.
func (r *roomProxy) terminateTLS(client net.Conn, t target) (handed bool) {
	leaf, err := r.options.Authority.leaf(t.name)
	if err != nil {
		r.record.add(Failed, t.String(), err.Error())
		return false
	}
	c := tls.Server(client, &tls.Config{
		Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
	})
	if err := c.HandshakeContext(r.ctx); err != nil {
		r.record.add(Failed, t.String(), "the TLS handshake with the program failed; it must trust the certificates in the file that "+
			"SSL_CERT_FILE names: "+err.Error())
		return false
	}
	return r.handOver(c, destination{"https", t})
}
