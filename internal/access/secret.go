package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// newSecret returns 256 random bits as text that needs no escapes in an address or a cookie.
func newSecret() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// hashOf is what is stored of a secret. A secret has 256 random bits, so that a plain SHA-256
// is not guessed back.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// newID returns a short name for something that has a secret.
func newID() string { return strings.ToLower(rand.Text()[:10]) }
