package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
)

// The headers of Standard Webhooks and of GitHub.
const (
	headerID        = "Webhook-Id"
	headerTime      = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"

	headerGitHubSignature = "X-Hub-Signature-256"
	headerGitHubEvent     = "X-Github-Event"
)

// tolerance is how far the time of a generic call may be from now.
const tolerance = 5 * time.Minute

// maxID bounds the id of a generic call, in bytes.
const maxID = 255

// Verify checks who has signed a call, and returns what tells it from all other calls of the hook and
// is signed itself: a call that is repeated has it again, whatever its other headers are. Anything
// wrong is [access.ErrSignature]. It computes one HMAC of the body in every case, so that how long it
// takes says little about hooks and secrets.
func Verify(kind access.HookKind, secret string, header http.Header, body []byte, now time.Time) (identity string, err error) {
	if kind == access.HookGitHub {
		given, valid := strings.CutPrefix(single(header, headerGitHubSignature), "sha256=")
		signature, err := hex.DecodeString(given)
		signed := hmac.Equal(signature, sum([]byte(secret), nil, body))
		if !signed || !valid || err != nil {
			return "", access.ErrSignature
		}
		// X-GitHub-Delivery is not signed, and says nothing.
		digest := sha256.Sum256(body)
		return hex.EncodeToString(digest[:]), nil
	}
	id, stamp := single(header, headerID), single(header, headerTime)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, access.HookSecretPrefix))
	signature := sum(key, []byte(id+"."+stamp+"."), body)
	at, wrong := strconv.ParseInt(stamp, 10, 64)
	switch {
	case !matchesOne(header, signature), err != nil, wrong != nil:
		return "", access.ErrSignature
	case id == "", len(id) > maxID, now.Sub(time.Unix(at, 0)).Abs() > tolerance:
		return "", access.ErrSignature
	}
	return id, nil
}

func sum(key, prefix, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(prefix) // never fails
	_, _ = mac.Write(body)
	return mac.Sum(nil)
}

// matchesOne reports whether one of a call's signatures is the right one: who changes a secret
// signs with both.
func matchesOne(header http.Header, right []byte) bool {
	for given := range strings.FieldsSeq(single(header, headerSignature)) {
		version, text, _ := strings.Cut(given, ",")
		signature, err := base64.StdEncoding.DecodeString(text)
		if version == "v1" && err == nil && hmac.Equal(signature, right) {
			return true
		}
	}
	return false
}

// single is the value of a header that stands once; otherwise it is empty.
func single(header http.Header, name string) string {
	if values := header[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// SessionID is the id of the session that a call starts, by the hook's name, kind and key, and the
// identity of the call. Without the key nobody knows it before, and could start a session of it.
func SessionID(h access.Hook, key, identity string) string {
	digest := sum([]byte(key), []byte(string(h.Kind)+"\x00"+h.Name+"\x00"), []byte(identity))
	return h.Name + "-" + hex.EncodeToString(digest[:16])
}
