package spec_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

func TestApprovalsAreStoredAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]spec.Approval{
		`{"name":"a","needs":null}`:                                        {},
		`{"name":"a","needs":null,"approve":true}`:                         {Count: 1},
		`{"name":"a","needs":null,"approve":{"by":["leads"],"count":1}}`:   {By: []string{"leads"}, Count: 1},
		`{"name":"a","needs":null,"approve":{"by":["x","y z"],"count":3}}`: {By: []string{"x", "y z"}, Count: 3},
		`{"name":"a","needs":null,"approve":{"count":2}}`:                  {Count: 2},
	} {
		var p spec.Phase
		require.NoError(t, json.Unmarshal([]byte(text), &p))
		require.Equal(t, want, p.Approve, text)
		data, err := json.Marshal(p)
		require.NoError(t, err)
		require.JSONEq(t, text, string(data))
	}
	var a spec.Approval
	require.NoError(t, json.Unmarshal([]byte(`{"by": ["leads"]}`), &a))
	require.Equal(t, 1, a.Count)
	for _, text := range []string{`"yes"`, `1`, `["leads"]`, `{"by": "leads"}`} {
		require.Error(t, json.Unmarshal([]byte(text), &a), text)
	}
	require.Equal(t, "2 persons of a, b or c", spec.Approval{By: []string{"a", "b", "c"}, Count: 2}.String())
	require.Equal(t, "1 person", spec.Approval{Count: 1}.String())
}
