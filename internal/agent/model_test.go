package agent

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/providertest"
	"github.com/maestro-hive/maestro/internal/team"
)

// done is a model that has nothing to do.
func done(providertest.Request) providertest.Reply {
	return calls(1, team.Usage{}, "finish", map[string]string{"summary": "done"})
}

// TestKeys has models find their key in the worker's environment, and nowhere
// else.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := providertest.New(t, done)
	for kind, c := range map[string]struct{ base, header, prefix string }{
		KindAnthropic: {server.URL(), "X-Api-Key", ""},
		KindOpenAI:    {server.OpenAIURL(), "Authorization", "Bearer "},
	} {
		b := newBench(t)
		run := func(variable string) (http.Header, error) {
			s := b.set(Config{Agents: map[string]Definition{"x": {Kind: kind, Model: "m", BaseURL: c.base, APIKeyEnv: variable}}})
			_, err := s.Run(t.Context(), b.job())
			if err != nil {
				return nil, err
			}
			requests := server.Requests()
			return requests[len(requests)-1].Header, nil
		}
		b.vars["MODEL"] = secret + "\n"
		header, err := run("MODEL")
		require.NoError(t, err, kind)
		require.Equal(t, c.prefix+secret, header.Get(c.header))

		header, err = run("")
		require.NoError(t, err, "a server that wants no key")
		require.Empty(t, header.Get(c.header))

		before := server.Count()
		b.vars["MODEL"] = " "
		_, err = run("MODEL")
		f := failure(t, err)
		require.Equal(t, team.Auth, f.Category)
		require.True(t, f.Final)
		require.Contains(t, f.Message, "the variable MODEL")
		require.Equal(t, before, server.Count())
	}
}

// TestKeysAreSecrets masks a key whatever its variable is called.
func TestKeysAreSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.vars["MODEL"] = secret + "\n"
	s := b.set(Config{Agents: map[string]Definition{"x": {Kind: KindOpenAI, Model: "m", APIKeyEnv: "MODEL"}}})
	require.Equal(t, "it is ***.", s.Mask("it is "+secret+"."))
	require.Contains(t, s.Secrets(), secret)
}

// TestModelsAreOffered says what of a model others have to know.
func TestModelsAreOffered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := Definition{Kind: KindOpenAI, Model: "m", BaseURL: "http://localhost", Fallback: ""}
	priced := d
	priced.Prices = &team.Prices{}
	s := b.set(Config{Agents: map[string]Definition{"x": d, "y": priced}})
	offered := s.Offered("x")
	require.Equal(t, "m", offered.Model)
	require.True(t, offered.Unpriced)
	require.Equal(t, team.InJournal, offered.Conversation)
	require.False(t, s.Offered("y").Unpriced)
	require.Equal(t, offered.Digest, s.Offered("y").Digest, "prices say nothing about what it does")
	other := d
	other.Model = "n"
	require.NotEqual(t, d.Digest(nil), other.Digest(nil))
}
