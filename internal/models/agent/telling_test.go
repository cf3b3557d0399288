package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

func TestTellingHasDefaults(t *testing.T) {
	t.Parallel()
	in := Config{Jira: &Jira{}, Webhook: &Webhook{}}
	out := in.WithDefaults()
	require.Equal(t, textfmt.Duration(2*time.Minute), out.Jira.IndexDelay)
	require.Equal(t, textfmt.Duration(30*time.Second), out.Jira.Timeout)
	require.Equal(t, textfmt.Duration(10*time.Second), out.Webhook.Timeout)
	require.Zero(t, *in.Jira, "the config itself is not changed")
	require.Nil(t, Config{}.WithDefaults().Jira)
	require.Nil(t, Config{}.WithDefaults().Webhook)
}

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
