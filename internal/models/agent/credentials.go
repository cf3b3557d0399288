package agent

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/egress"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// Credential is a secret that the worker adds to requests from rooms to a host, over TLS only.
// Agents and checks do not see it.
type Credential struct {
	// Host is a host of a `network` list: a name, or *. and a name, with or without a port.
	Host string `json:"host" yaml:"host" jsonschema:"format=host" example:"git.example.com"`
	// SecretEnv names the variable of the worker's environment that has the secret: a bearer
	// token, unless username or header is set.
	SecretEnv string `json:"secret_env" yaml:"secret_env" jsonschema:"format=variable" example:"GIT_TOKEN"`
	// Username is the user of basic authentication; the secret is the password.
	Username string `json:"username,omitempty" yaml:"username,omitempty" jsonschema:"format=filled"`
	// Header is the name of the header whose value is the secret.
	Header string `json:"header,omitempty" yaml:"header,omitempty" jsonschema:"format=filled"`
}

// header is the header and value for a secret.
func (c Credential) header(secret string) (name, value string) {
	switch {
	case c.Header != "":
		return c.Header, secret
	case c.Username != "":
		return "Authorization", egress.Basic(c.Username, secret)
	}
	return "Authorization", "Bearer " + secret
}

// headerName is what a header of a credential may be called.
var headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// framing are headers that say how a message is sent, and to whom.
var framing = []string{
	"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade",
	"proxy-authorization", "expect",
}

// credentials checks those of the file.
func (v *validator) credentials() {
	for i, c := range v.config.Credentials {
		path := spec.ItemPath("$.credentials", i)
		if c.Username != "" && c.Header != "" {
			v.add(path+".header", "conflicts with username; keep one of them")
		}
		if c.Header != "" && (!headerName.MatchString(c.Header) || slices.Contains(framing, strings.ToLower(c.Header))) {
			v.add(path+".header", "is no header that a credential can have; write it like Authorization or X-Api-Key")
		}
		host, err := egress.ParseHost(c.Host)
		switch {
		case err != nil:
			v.add(path+".host", "%v", err)
		case host.IsAddress():
			v.add(path+".host", "is an address; credentials are for names")
		case !v.listed(c, host):
			v.add(path+".host", "is %s, which no network lists; add it to the network of an agent or a check", c.Host)
		}
	}
}

// listed reports whether a network lists the host of a credential. It refuses that what lists the
// host gets the secret in its environment, too.
func (v *validator) listed(c Credential, host egress.Host) (found bool) {
	look := func(path string, n Network, env []string) {
		if !slices.ContainsFunc(n.hosts(), func(h egress.Host) bool { return h.Covers(host) || host.Covers(h) }) {
			return
		}
		found = true
		if i := slices.Index(env, c.SecretEnv); i >= 0 {
			v.add(spec.ItemPath(path+".env", i), "is the secret of the credential for %s, which the worker adds outside of the room; "+
				"leave it out", c.Host)
		}
	}
	for name, d := range v.config.Agents {
		look(spec.FieldPath("$.agents", name), d.Network, d.Env)
	}
	for name, d := range v.config.Checks {
		look(spec.FieldPath("$.checks", name), d.Network, d.Env)
	}
	return found
}

// systemRoots are the files in which systems keep the authorities that programs trust.
var systemRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
}

// bundlePath is where a room has the authorities that its programs are to trust, and
// trustVariables are the variables by which programs find them.
const bundlePath = "/run/maestro/ca.pem"

var trustVariables = []string{
	"SSL_CERT_FILE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT",
	"CARGO_HTTP_CAINFO",
	"npm_config_cafile",
}

// readCredentials prepares the credentials for the proxies of rooms, and returns the values to
// mask. One whose variable is not set is left out.
func (s *Set) readCredentials() (found []secrets.Secret, err error) {
	if len(s.config.Credentials) == 0 {
		return nil, nil
	}
	var hosts []egress.Host
	for _, c := range s.config.Credentials {
		host, err := egress.ParseHost(c.Host)
		if err != nil {
			return nil, err
		}
		secret := strings.TrimSpace(s.o.Getenv(c.SecretEnv))
		if secret == "" {
			continue
		}
		name, value := c.header(secret)
		hosts, found = append(hosts, host),
			append(found, secrets.Secret{Name: c.SecretEnv, Value: value[strings.LastIndexByte(value, ' ')+1:]})
		s.o.Egress.Credentials = append(s.o.Egress.Credentials, egress.Credential{Host: host, Header: name, Value: value})
	}
	if len(hosts) == 0 {
		return nil, nil
	}
	if s.o.Egress.Authority, err = egress.NewAuthority(hosts, s.o.Now); err != nil {
		return nil, err
	}
	for _, file := range append([]string{cmp.Or(s.o.Getenv("SSL_CERT_FILE"), systemRoots[0])}, systemRoots...) {
		if s.bundle, err = os.ReadFile(file); err == nil {
			break
		}
	}
	s.bundle = slices.Concat(bytes.TrimSpace(s.bundle), []byte("\n"), s.o.Egress.Authority.PEM())
	return found, nil
}

// trust has the programs of a room trust the proxy, if one of its hosts has a credential.
func (p *place) trust(hosts []egress.Host, dirs session.WorkDir, s *Set) {
	if !slices.ContainsFunc(s.o.Egress.Credentials, func(c egress.Credential) bool {
		return slices.ContainsFunc(hosts, func(h egress.Host) bool { return h.Covers(c.Host) || c.Host.Covers(h) })
	}) {
		return
	}
	p.bundle = filepath.Join(filepath.Dir(dirs.Home), "ca.pem")
	p.room.Mounts = append(p.room.Mounts, room.Mount{Source: p.bundle, Target: bundlePath})
	for _, name := range trustVariables {
		p.variables[name] = bundlePath
	}
}

// writeBundle writes the authorities that a room shows.
func (s *Set) writeBundle(at place) error {
	if at.bundle == "" {
		return nil
	}
	if err := os.WriteFile(at.bundle, s.bundle, 0o644); err != nil {
		return fmt.Errorf("write the authorities that the room trusts: %w", err)
	}
	return nil
}
