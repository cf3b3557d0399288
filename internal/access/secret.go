package access

import (
	"crypto/rand"
	"encoding/base64"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// newSecret returns 256 random bits as text that needs no escapes in an address or a cookie.
func newSecret() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// hashOf is what is stored of a secret. A secret has 256 random bits, so that a plain SHA-256
// is not guessed back.
func hashOf(secret string) string { return string(spec.DigestOf([]byte(secret))) }

// newID returns a short name for something that has a secret.
func newID() string { return strings.ToLower(rand.Text()[:10]) }
