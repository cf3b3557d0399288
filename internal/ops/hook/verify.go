package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
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

// Verify checks the signature of a call. It returns the identity of the call, which is signed, too: it
// is unique among the hook's calls, and a repeated call has the same one, whatever its other headers are.
// Any error is [access.ErrSignature]. It computes one HMAC of the body in every case, so that its
// duration gives little information on hooks and secrets.
func Verify(kind access.HookKind, secret string, header http.Header, body []byte, now time.Time) (identity string, err error) {
	digest := sha256.Sum256(body)
	ofBody := hex.EncodeToString(digest[:]) // ids of deliveries are not signed, and say nothing
	if kind == access.HookGitHub {
		given, valid := strings.CutPrefix(single(header, headerGitHubSignature), "sha256=")
		signature, err := hex.DecodeString(given)
		signed := hmac.Equal(signature, sum([]byte(secret), nil, body))
		if !signed || !valid || err != nil {
			return "", access.ErrSignature
		}
		return ofBody, nil
	}
	// GitLab sends its secret token, or signs with its signing token as Standard Webhooks says, or both.
	token := subtle.ConstantTimeCompare([]byte(single(header, "X-Gitlab-Token")), []byte(secret)) == 1
	id, stamp := single(header, headerID), single(header, headerTime)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, access.HookSecretPrefix))
	signature := sum(key, []byte(id+"."+stamp+"."), body)
	at, wrong := strconv.ParseInt(stamp, 10, 64)
	switch {
	case kind == access.HookGitLab && token:
		return ofBody, nil
	case !matchesOne(header, signature), err != nil, wrong != nil:
		return "", access.ErrSignature
	case id == "", len(id) > maxID, now.Sub(time.Unix(at, 0)).Abs() > tolerance:
		return "", access.ErrSignature
	case kind == access.HookGitLab:
		return ofBody, nil
	}
	return id, nil
}

func sum(key, prefix, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(prefix) // never fails
	_, _ = mac.Write(body)
	return mac.Sum(nil)
}

// matchesOne reports whether one of a call's signatures is right: during a change of the secret a
// call has the signatures of both.
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

// single returns the value of a header that occurs once; otherwise it is empty.
func single(header http.Header, name string) string {
	if values := header[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// SessionID returns the id of the session that a call starts. It depends on the hook's name, kind and
// secret, and on the identity of the call, or of its subject. The secret makes it unpredictable, so that no other user can
// start a session with this id first.
func SessionID(h access.SecretHook, identity string) string {
	digest := sum([]byte(h.Secret), []byte(string(h.Kind)+"\x00"+h.Name+"\x00"), []byte(identity))
	return h.Name + "-" + hex.EncodeToString(digest[:16])
}
