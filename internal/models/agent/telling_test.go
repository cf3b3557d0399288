package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatTellsPeopleHasSecrets(t *testing.T) {
	t.Parallel()
	c := Config{
		Secrets: []string{"OWN"},
		Jira:    &Jira{EmailEnv: "MAIL", TokenEnv: "PAT"},
		Webhook: &Webhook{URLEnv: "HOOK"},
	}
	require.Equal(t, []string{"HOOK", "MAIL", "OWN", "PAT"}, c.secretNames())
	require.Equal(t, []string{"OWN"}, Config{Secrets: []string{"OWN"}}.secretNames())
}
