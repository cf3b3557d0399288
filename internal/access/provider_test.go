package access_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// provider is a provider of sign-ins that speaks OpenID Connect, and errs as a test says.
type provider struct {
	t      *testing.T
	server *httptest.Server
	clock  *statetest.Clock
	key    *rsa.PrivateKey
	secret string

	mu    sync.Mutex
	codes map[string]url.Values
	// person are the claims of who signs in, info those that only the endpoint for users has.
	person, info map[string]any
	// change changes the claims, sign makes the token of a header and claims.
	change func(claims map[string]any)
	sign   func(claims map[string]any) string
	down   bool
}

func newProvider(t *testing.T, c *statetest.Clock) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &provider{t: t, clock: c, key: key, secret: "s3cret", codes: map[string]url.Values{}}
	p.person = map[string]any{"sub": "42", "email": "bob@example.org", "email_verified": true, "groups": []string{"eng", "leads"}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", p.discover)
	mux.HandleFunc("/jwks", p.keys)
	mux.HandleFunc("/token", p.token)
	mux.HandleFunc("/me", p.me)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	return p
}

// set changes how the provider behaves.
func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func reply200(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document)
}

func (p *provider) discover(w http.ResponseWriter, _ *http.Request) {
	at := p.server.URL
	reply200(w, map[string]any{
		"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token", "jwks_uri": at + "/jwks",
		"userinfo_endpoint": at + "/me", "id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func base64url(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func (p *provider) keys(w http.ResponseWriter, _ *http.Request) {
	e := big.NewInt(int64(p.key.E)).Bytes()
	reply200(w, map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": base64url(p.key.N.Bytes()), "e": base64url(e),
	}}})
}

// authorize is what the provider does when a person signs in at an address: it returns the
// address that it leads the browser back to.
func (p *provider) authorize(address string) string {
	p.t.Helper()
	u, err := url.Parse(address)
	require.NoError(p.t, err)
	q := u.Query()
	require.Equal(p.t, "code", q.Get("response_type"))
	require.Equal(p.t, "S256", q.Get("code_challenge_method"))
	require.Contains(p.t, q.Get("scope"), "openid")
	code := rand.Text()
	p.set(func() { p.codes[code] = q })
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.server.URL}}.Encode()
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	asked, known := p.codes[r.PostForm.Get("code")]
	delete(p.codes, r.PostForm.Get("code"))
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	if !known || id != "maestro" || secret != p.secret || base64url(sum[:]) != asked.Get("code_challenge") ||
		r.PostForm.Get("redirect_uri") != asked.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		reply200(w, map[string]string{"error": "invalid_grant"})
		return
	}
	claims := maps.Clone(p.person)
	now := p.clock.Now()
	maps.Copy(claims, map[string]any{
		"iss": p.server.URL, "aud": "maestro", "nonce": asked.Get("nonce"), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
	if p.change != nil {
		p.change(claims)
	}
	sign := p.sign
	if sign == nil {
		sign = p.rs256
	}
	reply200(w, map[string]any{"access_token": "at", "token_type": "Bearer", "expires_in": 60, "id_token": sign(claims)})
}

func (p *provider) me(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer at" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	reply200(w, p.info)
}

func jwt(header map[string]any, claims map[string]any) string {
	h, _ := json.Marshal(header)
	c, _ := json.Marshal(claims)
	return base64url(h) + "." + base64url(c)
}

func (p *provider) signWith(key *rsa.PrivateKey, claims map[string]any) string {
	text := jwt(map[string]any{"alg": "RS256", "kid": "1"}, claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64url(signature)
}

func (p *provider) rs256(claims map[string]any) string { return p.signWith(p.key, claims) }

// none is a token without a signature.
func (p *provider) none(claims map[string]any) string {
	return jwt(map[string]any{"alg": "none"}, claims) + "."
}

// hs256 is a token that is signed with the public key as a secret.
func (p *provider) hs256(claims map[string]any) string {
	text := jwt(map[string]any{"alg": "HS256", "kid": "1"}, claims)
	mac := hmac.New(sha256.New, x509.MarshalPKCS1PublicKey(&p.key.PublicKey))
	mac.Write([]byte(text))
	return text + "." + base64url(mac.Sum(nil))
}
