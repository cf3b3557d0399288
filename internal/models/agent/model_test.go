package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
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
	b := newBench(t)
	run := func(variable, value string) error {
		b.vars["MODEL"] = value
		_, err := b.run(b.set(modelConfig(Provider{Format: wire.OpenAI, BaseURL: server.OpenAIURL(), KeyEnv: variable})))
		return err
	}
	require.NoError(t, run("MODEL", secret+"\n"))
	require.Equal(t, "Bearer "+secret, server.Requests()[0].Header.Get("Authorization"))
	b.calls = callstest.New(-1)
	require.NoError(t, run("", secret), "a server that wants no key")
	require.Empty(t, server.Requests()[1].Header.Get("Authorization"))
	b.calls = callstest.New(-1)
	f := failure(t, run("MODEL", " "))
	require.Equal(t, failures.Auth, f.Category)
	require.False(t, f.RetryRound())
	require.Contains(t, f.Message, "variable MODEL with")
	require.Equal(t, 2, server.Count())
}

// TestModelsAreFollowed looks at a part of a model's answer while the rest is on its way, then at its calls.
func TestModelsAreFollowed(t *testing.T) {
	t.Parallel()
	halfway, goOn := make(chan struct{}), make(chan struct{})
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "line %d, not %s\n", i, secret)
	}
	server := providertest.New(t, func(providertest.Request) providertest.Reply {
		reply := providertest.Use(providertest.Tool("write", map[string]any{"path": "a.md", "content": "one\x1b[31m\nTODO\n"}),
			providertest.Tool("finish", map[string]any{"summary": "done"}))
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
	s := b.set(modelConfig(Provider{Format: wire.Anthropic, BaseURL: server.URL(), KeyEnv: "MODEL"}))
	job := b.job()
	job.LiveLog = filepath.Join(t.TempDir(), "live.log")
	said := func() string {
		data, _ := os.ReadFile(job.LiveLog)
		return string(data)
	}
	go func() {
		<-halfway
		assert.Eventually(t, func() bool { return strings.Contains(said(), "line 1, not ***\n") }, patience, time.Millisecond)
		assert.NotContains(t, said(), "line 29")
		close(goOn)
	}()
	require.Equal(t, string(b.done(s, job).Log), said(), "one transcript")
	require.Contains(t, said(), "-- turn 1: asking m\nline 0, not ***\n")
	require.Contains(t, said(), "line 29, not ***\n> write a.md\n  │ one\n  │ TODO\n> finish\n  │ done\n-- turn 1: done; tokens: ")
	require.NotContains(t, said(), secret)
}

// TestModelsAreOffered says what of a model others have to know. Prices, keys and breakers say nothing about what it does.
func TestModelsAreOffered(t *testing.T) {
	t.Parallel()
	c := modelConfig(Provider{Format: wire.OpenAI, BaseURL: "http://localhost", KeyEnv: "UNSET"})
	c.Providers["q"] = Provider{
		Format: wire.OpenAI, BaseURL: "http://localhost", Models: map[string]cost.Prices{"m": {}},
		Breaker: spec.Breaker{Threshold: 7},
	}
	c.Providers["r"] = Provider{Format: wire.OpenAI, BaseURL: "http://127.0.0.1"}
	c.Agents["y"], c.Agents["z"] = Definition{Kind: KindModel, Provider: "q", Model: "m"},
		Definition{Kind: KindModel, Provider: "r", Model: "m"}
	s := newBench(t).set(c)
	x, y := s.Offered("x"), s.Offered("y")
	require.Equal(t, []any{"m", true, spec.InCalls}, []any{x.Model, x.Unpriced, x.Conversation})
	require.Equal(t, []any{x.Digest, false, "q"}, []any{y.Digest, y.Unpriced, y.Breaker})
	require.NotEqual(t, x.Digest, s.Offered("z").Digest, "it asks another server")
	require.Equal(t, 7, s.Breaker("y").Threshold)
}

// TestModelsKeepToTheLimitsOfTheirProvider has attempts work side by side at a provider that takes one call at a time.
func TestModelsKeepToTheLimitsOfTheirProvider(t *testing.T) {
	t.Parallel()
	var under, most atomic.Int64
	server := providertest.New(t, func(r providertest.Request) providertest.Reply {
		defer under.Add(-1)
		now := under.Add(1)
		for end := time.Now().Add(300 * time.Millisecond); most.Load() < 2 && time.Now().Before(end); now = under.Load() {
			most.Store(max(now, most.Load()))
			time.Sleep(time.Millisecond)
		}
		return done(r)
	})
	b := newBench(t)
	s := b.set(modelConfig(Provider{Format: wire.Anthropic, BaseURL: server.URL(), Limits: ProviderLimits{Concurrent: 1}}))
	var attempts errgroup.Group
	for range 2 {
		attempts.Go(func() error {
			_, err := b.run(s)
			return err
		})
	}
	require.NoError(t, attempts.Wait())
	require.Equal(t, int64(1), most.Load())
}
