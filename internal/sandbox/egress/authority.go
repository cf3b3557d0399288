package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// authorityLife and leafLife are how long certificates are valid. A leaf is replaced when
	// less than half of that is left.
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 48 * time.Hour
	// clockSkew is how far a program's clock may be behind.
	clockSkew = time.Hour
	// maxLeaves bounds the cached certificates.
	maxLeaves = 1000
)

// Authority issues the certificates of a proxy for the hosts that have credentials. Its key is in
// memory only, and its certificate is restricted to these hosts.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
	now  func() time.Time

	mu sync.Mutex
	// leafKey is the key of all leaves.
	leafKey *ecdsa.PrivateKey
	leaves  map[string]*tls.Certificate
}

// NewAuthority makes an authority for these hosts, which are names.
func NewAuthority(hosts []Host, now func() time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	leafKey, e := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err = errors.Join(err, e); err != nil {
		return nil, fmt.Errorf("make the keys of an authority: %w", err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Maestro worker"},
		NotBefore: now().Add(-clockSkew), NotAfter: now().Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true,
		ExcludedIPRanges: []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
			{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
		},
	}
	for _, h := range hosts {
		template.PermittedDNSDomains = append(template.PermittedDNSDomains, h.name)
	}
	a := &Authority{key: key, leafKey: leafKey, now: now, leaves: map[string]*tls.Certificate{}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		return nil, fmt.Errorf("make the certificate of an authority: %w", err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, nil
}

// PEM returns the certificate of the authority.
func (a *Authority) PEM() []byte { return a.pem }

// leaf returns a certificate for a name.
func (a *Authority) leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if known := a.leaves[name]; known != nil && known.Leaf.NotAfter.Sub(now) > leafLife/2 {
		return known, nil
	}
	template := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{"Maestro worker"}}, DNSNames: []string{name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leafKey.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", name, err)
	}
	made := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leafKey}
	if made.Leaf, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	a.leaves[name] = made
	return made, nil
}
