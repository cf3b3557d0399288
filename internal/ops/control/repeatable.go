package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/maestro-hive/maestro/internal/access"
)

type changeKey struct{}

// Repeatable returns a context for a change that its caller may send again. With the same key it is
// made once, also if the answer to the first try was lost.
func Repeatable(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, changeKey{}, key)
}

// changeID is the id of a change, which is the same for each try. It depends on the caller, the key
// and the change, so that a key that is used for another change makes that, too. Empty: the caller
// gave no key.
func changeID(ctx context.Context, change ...any) string {
	key, _ := ctx.Value(changeKey{}).(string)
	if key == "" {
		return ""
	}
	who, _ := access.Of(ctx)
	data, _ := json.Marshal([]any{who.Via, who.Identity(), who.Name, key, change}) // texts and numbers only
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
