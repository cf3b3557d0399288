package agent

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/secrets"
)

func TestSecretsAreFoundByName(t *testing.T) {
	t.Parallel()
	vars := map[string]string{
		"API_KEY": "value-of-api-key", "MY_TOKEN": "value-of-my-token", "NAMED": "value-named",
		"PLAIN": "value-plain", "PIN_SECRET": "1234", "HOOK": "value-hook", "MAIL": "value-mail", "PAT": "value-pat",
	}
	b := newBench(t)
	b.vars = vars
	s := b.set(Config{
		Secrets: []string{"NAMED"},
		Jira:    &Jira{EmailEnv: "MAIL", TokenEnv: "PAT"},
		Webhook: &Webhook{URLEnv: "HOOK"},
		Agents: map[string]Definition{"x": {
			Kind: KindCommand, Argv: []string{"/bin/true"},
			Env: []string{"API_KEY", "PLAIN", "PIN_SECRET"},
		}},
		Checks: map[string]CheckDefinition{"c": {Argv: []string{"/bin/true"}, Env: []string{"MY_TOKEN"}}},
	})
	require.Equal(t, []secrets.Secret{
		{Name: "HOOK", Value: "value-hook"},
		{Name: "MAIL", Value: "value-mail"},
		{Name: "NAMED", Value: "value-named"},
		{Name: "API_KEY", Value: "value-of-api-key"},
		{Name: "MY_TOKEN", Value: "value-of-my-token"},
		{Name: "PAT", Value: "value-pat"},
	}, s.Secrets().Secrets())
	require.Equal(t, "*** *** *** value-plain 1234", s.Mask("value-of-api-key value-of-my-token value-named value-plain 1234"))
}

func TestProgressIsReadable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	secretInEscapes := secret[:10] + `\033[0m` + secret[10:]
	s := b.shell(`printf '\033[32mgreen\033[0m ` + secretInEscapes +
		` %0300d\n' 7 >&2; printf '10%%\r50%%\r100%%\n' >&2; echo only stdout`)
	b.done(s, b.job())
	require.Len(t, b.said, 2)
	require.True(t, strings.HasPrefix(b.said[0], "green *** 000"), b.said[0])
	require.LessOrEqual(t, len(b.said[0]), 200)
	require.True(t, utf8.ValidString(b.said[0]))
	require.Equal(t, "100%", b.said[1])
}
