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
		w.mask(agents(names...).Secrets().Secrets()...)
	}
	require.Equal(t, "*** and *** and more", w.Mask("the-first-secret and the-second-secret and more"))
	require.Len(t, w.secrets.Load().Secrets(), 2)
}

// TestARenewedCredentialIsMasked: a delivery uses the credential as it is now, so that texts may have it from now on.
func TestARenewedCredentialIsMasked(t *testing.T) {
	t.Parallel()
	token := "the-first-token"
	set, err := agent.New(agent.Config{Version: 1, Agents: map[string]agent.Definition{
		"github": {Kind: agent.KindDelivery, TokenEnv: "TOKEN"},
	}}, agent.Options{Getenv: func(string) string { return token }, Now: time.Now, Executable: os.Args[0]})
	require.NoError(t, err)
	w := &Worker{Setup: Setup{Clock: time.Now}}
	w.mask(set.Secrets().Secrets()...)
	hosts := &codeHosts{worker: w, set: set}
	before, err := hosts.host("github")
	require.NoError(t, err)
	token = "the-second-token"
	after, err := hosts.host("github")
	require.NoError(t, err)
	require.NotSame(t, before, after)
	require.Equal(t, "*** and ***", w.Mask("the-first-token and the-second-token"))
}
