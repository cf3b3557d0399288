package service

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/agent"
)

// TestSecretsStayMaskedWhenTheFileNamesThemNoMore: what has begun with them continues.
func TestSecretsStayMaskedWhenTheFileNamesThemNoMore(t *testing.T) {
	t.Parallel()
	agents := func(secrets ...string) *agent.Set {
		set, err := agent.New(agent.Config{
			Version: 1, Secrets: secrets, Agents: map[string]agent.Definition{"coder": {Kind: agent.KindCommand, Argv: []string{"true"}}},
		}, agent.Options{
			Getenv: func(name string) string {
				return map[string]string{"ONE": "the-first-secret", "TWO": "the-second-secret"}[name]
			},
			Now: time.Now, Executable: os.Args[0],
		})
		require.NoError(t, err)
		return set
	}
	var w Worker
	for _, names := range [][]string{{"ONE"}, {"TWO"}, {}, {}, {"ONE"}, {"TWO"}} {
		w.mask(agents(names...).Secrets())
	}
	require.Equal(t, "*** and *** and more", w.Mask("the-first-secret and the-second-secret and more"))
	require.Len(t, w.secrets.Load().Secrets(), 2)
}
