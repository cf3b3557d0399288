package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		`{"summary":"x","usage":{"input_tokens":1,"cost_usd":0.1},"decisions":{"a":"b"},"error":{"category":"auth","retryable":false}}`,
		`{"usage":{"input_tokens":1e400}}`, `{"usage":{"cost_usd":"1"}}`, `[]`, `null`, `{} {}`, "{", "\x00", `{"Summary":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseResult(data)
		require.NoError(t, r.Usage.Validate()) // whatever else is wrong
		if err != nil {
			require.NotContains(t, err.Error(), "Go ")
			require.Equal(t, result{Usage: r.Usage}, r)
			return
		}
		require.NoError(t, session.CheckDecisions(r.Decisions))
	})
}
