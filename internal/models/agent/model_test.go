package agent

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// done is a model that has nothing to do.
func done(providertest.Request) providertest.Reply {
	return calls(1, cost.Usage{}, "finish", map[string]string{"summary": "done"})
}

// modelConfig has agent x ask a model of a provider.
func modelConfig(p Provider) Config {
	return Config{
		Agents:    map[string]Definition{"x": {Kind: KindModel, Provider: "p", Model: "m"}},
		Providers: map[string]Provider{"p": p},
	}
}

// TestKeys has models find their key in the worker's environment, and nowhere
// else.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := providertest.New(t, done)
	for format, c := range map[wire.API]struct{ base, header, prefix string }{
		wire.Anthropic: {server.URL(), "X-Api-Key", ""},
		wire.OpenAI:    {server.OpenAIURL(), "Authorization", "Bearer "},
	} {
		b := newBench(t)
		run := func(variable string) (http.Header, error) {
			s := b.set(modelConfig(Provider{Format: format, BaseURL: c.base, KeyEnv: variable}))
			_, err := s.Run(t.Context(), b.job())
			if err != nil {
				return nil, err
			}
			requests := server.Requests()
			return requests[len(requests)-1].Header, nil
		}
		b.vars["MODEL"] = secret + "\n"
		header, err := run("MODEL")
		require.NoError(t, err, format)
		require.Equal(t, c.prefix+secret, header.Get(c.header))

		header, err = run("")
		require.NoError(t, err, "a server that wants no key")
		require.Empty(t, header.Get(c.header))

		before := server.Count()
		b.vars["MODEL"] = " "
		_, err = run("MODEL")
		f := failure(t, err)
		require.Equal(t, failures.Auth, f.Category)
		require.False(t, f.RetryRound())
		require.Contains(t, f.Message, "variable MODEL with")
		require.Equal(t, before, server.Count())
	}
}

// TestKeysAreSecrets masks a key whatever its variable is called.
func TestKeysAreSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.vars["MODEL"] = secret + "\n"
	s := b.set(modelConfig(Provider{Format: wire.OpenAI, KeyEnv: "MODEL"}))
	require.Equal(t, "it is ***.", s.Mask("it is "+secret+"."))
	require.Contains(t, s.Secrets().Secrets(), secrets.Secret{Name: "MODEL", Value: secret})
}

// TestModelsAreFollowed looks at what a model does while it does it: a part of its
// answer while the rest is on its way, then its calls and what they bring.
func TestModelsAreFollowed(t *testing.T) {
	t.Parallel()
	for format, address := range map[wire.API]func(*providertest.Server) string{wire.Anthropic: (*providertest.Server).URL, wire.OpenAI: (*providertest.Server).OpenAIURL} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			halfway, goOn := make(chan struct{}), make(chan struct{})
			var text strings.Builder
			for i := range 30 {
				fmt.Fprintf(&text, "line %d, not %s\n", i, secret)
			}
			write := map[string]any{"path": "a.md", "content": "one\x1b[31m\nTODO\n"}
			edit := map[string]any{"path": "a.md", "old": "TODO", "new": "DONE"}
			server := providertest.New(t, func(r providertest.Request) providertest.Reply {
				if r.Turn() > 1 {
					return providertest.Use(
						providertest.Tool("decide", map[string]any{"name": "database", "value": "sqlite"}),
						providertest.Tool("finish", map[string]any{"summary": "done"}))
				}
				reply := providertest.Use(providertest.Tool("write", write), providertest.Tool("edit", edit), providertest.Tool("read", map[string]any{"path": "b.md"}))
				reply.Text = text.String()
				reply.Fault.Hold = func(sent int) <-chan struct{} {
					if sent != 20 {
						return nil
					}
					close(halfway)
					return goOn
				}
				return reply
			})
			b := newBench(t)
			b.vars["MODEL"] = secret
			s := b.set(modelConfig(Provider{Format: format, BaseURL: address(server), KeyEnv: "MODEL"}))
			job := b.job()
			job.LiveLog = filepath.Join(t.TempDir(), "live.log")
			said := func() string {
				data, err := os.ReadFile(job.LiveLog)
				require.NoError(t, err)
				return string(data)
			}
			var out session.Outcome
			var err error
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				out, err = s.Run(t.Context(), job)
			}()
			<-halfway
			require.Eventually(t, func() bool { return strings.Contains(said(), "line 1, not ***\n") }, time.Minute, time.Millisecond, "while the answer is on its way")
			require.NotContains(t, said(), "line 29")
			close(goOn)
			<-ended
			require.NoError(t, err)
			log := string(out.Log)
			require.Equal(t, log, said(), "one transcript")
			for _, want := range []string{
				"-- turn 1: asking m\nline 0, not ***\n", "line 29, not ***\n> write a.md\n  │ one\n  │ TODO\n> edit a.md\n  │ - TODO\n  │ + DONE\n> read b.md\n-- turn 1: done; tokens: ",
				"< edit a.md: Wrote a.md: ", "< read b.md: failed: ", "> decide database = sqlite\n> finish\n  │ done\n", "< decide database = sqlite: Recorded.\n",
			} {
				require.Contains(t, log, want)
			}
			require.NotContains(t, log, secret)
		})
	}
}

// TestModelsAreOffered says what of a model others have to know.
func TestModelsAreOffered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := modelConfig(Provider{Format: wire.OpenAI, BaseURL: "http://localhost", KeyEnv: "UNSET"})
	priced := c.Providers["p"]
	priced.Models, priced.KeyEnv, priced.Breaker.Threshold = map[string]cost.Prices{"m": {}}, "", 7
	elsewhere := priced
	elsewhere.BaseURL = "http://127.0.0.1"
	c.Providers["q"], c.Providers["r"] = priced, elsewhere
	for name, provider := range map[string]string{"y": "q", "z": "r"} {
		c.Agents[name] = Definition{Kind: KindModel, Provider: provider, Model: "m"}
	}
	s := b.set(c)
	offered := s.Offered("x")
	require.Equal(t, "m", offered.Model)
	require.True(t, offered.Unpriced)
	require.Equal(t, spec.InCalls, offered.Conversation)
	require.False(t, s.Offered("y").Unpriced)
	require.Equal(t, offered.Digest, s.Offered("y").Digest, "prices, keys and breakers say nothing about what it does")
	require.NotEqual(t, offered.Digest, s.Offered("z").Digest, "it asks another server")
	require.Equal(t, "q", s.Offered("y").Breaker, "that of the provider")
	require.Equal(t, 7, s.Breaker("y").Threshold)
	before := c.Digest("x")
	c.Agents["x"] = Definition{Kind: KindModel, Provider: "p", Model: "n"}
	require.NotEqual(t, before, c.Digest("x"))
}

// TestModelsKeepToTheLimitsOfTheirProvider has two attempts work side by side at a provider that
// takes one call at a time, and that waits for a second one.
func TestModelsKeepToTheLimitsOfTheirProvider(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		concurrent, most int64
		wait             time.Duration
	}{"one call at a time": {1, 1, 300 * time.Millisecond}, "no limit": {0, 2, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var under, most atomic.Int64
			server := providertest.New(t, func(r providertest.Request) providertest.Reply {
				defer under.Add(-1)
				for n, end := under.Add(1), time.Now().Add(c.wait); most.Load() < 2 && time.Now().Before(end); n = under.Load() {
					most.Store(max(n, most.Load()))
					time.Sleep(time.Millisecond)
				}
				return done(r)
			})
			b := newBench(t)
			s := b.set(modelConfig(Provider{Format: wire.Anthropic, BaseURL: server.URL(), Limits: ProviderLimits{Concurrent: c.concurrent}}))
			var attempts errgroup.Group
			for range 2 {
				job := b.job()
				job.Calls = &purse{left: 1_000_000}
				attempts.Go(func() error {
					_, err := s.Run(t.Context(), job)
					return err
				})
			}
			require.NoError(t, attempts.Wait())
			require.Equal(t, c.most, most.Load())
		})
	}
}
