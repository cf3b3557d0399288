package githubtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// maxJWT is the longest time that GitHub lets the token of an app be valid.
const maxJWT = 10 * time.Minute

// valid reports whether a token may be used. The server is locked.
func (s *Server) valid(token string) bool {
	until, ok := s.tokens[token]
	return ok && (until.IsZero() || until.After(s.now()))
}

// authorized reports whether a request has the credentials that its path needs.
func (s *Server) authorized(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	path := strings.TrimPrefix(r.URL.Path, "/api/v3")
	if path == "/app" || strings.HasPrefix(path, "/app/") || strings.HasSuffix(path, "/installation") {
		return ok && s.isApp(token)
	}
	return ok && s.valid(token)
}

// isApp reports whether a token is one that the app has signed.
func (s *Server) isApp(token string) bool {
	if s.options.App == nil {
		return false
	}
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return s.options.App.Key, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer(strconv.FormatInt(s.options.App.ID, 10)), jwt.WithTimeFunc(s.now),
		jwt.WithIssuedAt(), jwt.WithExpirationRequired())
	return err == nil && claims.ExpiresAt.Sub(s.now()) <= maxJWT
}

func (s *Server) getInstallation(w http.ResponseWriter, r *http.Request) {
	if s.repo(r.PathValue("owner")+"/"+r.PathValue("repo")) == nil {
		failure{http.StatusNotFound, "Not Found", nil}.write(w)
		return
	}
	write(w, http.StatusOK, doc{"id": s.options.App.Installation, "app_id": s.options.App.ID, "app_slug": s.options.App.Slug})
}

func (s *Server) createToken(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") != strconv.FormatInt(s.options.App.Installation, 10) {
		failure{http.StatusNotFound, "Not Found", nil}.write(w)
		return
	}
	lifetime := s.options.App.Lifetime
	if lifetime == 0 {
		lifetime = time.Hour
	}
	token, until := fmt.Sprintf("ghs_installationToken%d", s.id()), s.now().Add(lifetime)
	s.tokens[token] = until
	write(w, http.StatusCreated, doc{"token": token, "expires_at": stamp(until)})
}

// Reinstall gives the app's installation another id, and makes its tokens invalid.
func (s *Server) Reinstall(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
	s.options.App.Installation = id
}

// login is the name of the account that Maestro uses.
func (s *Server) login() string {
	if s.options.App != nil {
		return s.options.App.Slug + "[bot]"
	}
	return Login
}
