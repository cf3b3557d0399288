package store

import (
	"encoding/json"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"
)

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
