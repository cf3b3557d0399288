package store

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"
)

func TestAMemoryForgetsWhatIsOldest(t *testing.T) {
	t.Parallel()
	var m memory
	require.False(t, m.has("a"))
	for i := range remembered + 10 {
		m.add(digestOf(fmt.Append(nil, i)))
		m.add(digestOf(fmt.Append(nil, i)))
	}
	require.Len(t, m.held, remembered)
	require.False(t, m.has(digestOf([]byte("9"))))
	require.True(t, m.has(digestOf([]byte("10"))))
	require.True(t, m.has(digestOf(fmt.Append(nil, remembered+9))))
}

// The seal is over RFC 8785, field by field or not.
func TestFieldsAreJoinedCanonically(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(map[string]any{
		"b": map[string]any{"ü<&>": 1e21, "a": []any{nil, true, 0.1}}, "B": "\u2028é\x01", "a_1": 3, "a": []any{}, "sha256": "x",
	})
	require.NoError(t, err)
	want, err := jcs.Transform(data)
	require.NoError(t, err)
	fields, err := canonicalFields(data)
	require.NoError(t, err)
	require.Equal(t, string(want), string(object(fields, "")))
	require.Equal(t, "{}", string(object(nil, "")))
}
