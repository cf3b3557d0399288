package llm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/wire"
)

// FuzzTidy: whatever a model gives as arguments, a JSON object is stored
// without secrets.
func FuzzTidy(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a":"swordfish-1"}`, `{"a":"swordfish\u002d1"}`, `[`, `null`, `{"swordfish-1":1}`, `{"a":{"b":["swordfish-1"]}}`, `{} {}`} {
		f.Add(s)
	}
	r := run{Agent: &Agent{Mask: maskFish}}
	f.Fuzz(func(t *testing.T, arguments string) {
		c := wire.Call{Arguments: arguments}
		r.tidy(&c)
		require.NotContains(t, c.Arguments+c.Broken, "swordfish-1")
		_, err := parse(wire.Call{Arguments: c.Arguments})
		if err != nil {
			require.ErrorContains(t, err, "must not be", "only a field may have another type")
		}
	})
}

func maskFish(s string) string { return strings.ReplaceAll(s, "swordfish-1", "***") }
