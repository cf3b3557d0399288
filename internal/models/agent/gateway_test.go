package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// askArgument makes the test binary an agent that sends prompts, its arguments, to the
// provider of its environment. It prints its environment and the answers. The prompt "stay" has it stay, whatever the provider
// answers,
// "claim" report that it has used ten tokens and five, and "tell" say its token.
const askArgument = "__test-ask"

func ask(prompts []string) (failed error) {
	fmt.Println(strings.Join(os.Environ(), "\n"))
	for _, prompt := range prompts {
		switch prompt {
		case "stay":
			time.Sleep(time.Hour)
		case "claim":
			_ = os.WriteFile(os.Getenv(resultVariable), []byte(`{"usage":{"input_tokens":10,"output_tokens":5}}`), 0o600)
			continue
		case "tell":
			_ = os.WriteFile(os.Getenv(resultVariable), []byte(`{"summary":"the token is `+os.Getenv("ANTHROPIC_API_KEY")+`"}`), 0o600)
			continue
		}
		path, key := os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", os.Getenv("ANTHROPIC_API_KEY")
		body := fmt.Sprintf(`{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":%q}]}`, prompt)
		if base := os.Getenv("OPENAI_BASE_URL"); base != "" && strings.HasPrefix(prompt, "openai") {
			path, key = base+"/chat/completions", os.Getenv("OPENAI_API_KEY")
		}
		r, _ := http.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+key)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			failed = err
			continue
		}
		answer, err := io.ReadAll(response.Body)
		fmt.Println(response.StatusCode, string(answer), err)
		if response.StatusCode != http.StatusOK {
			failed = errors.New(response.Status)
		}
	}
	return failed
}

const realKey = "sk-of-the-provider-0123456789"

// asker has agent x ask a provider of each format by the gateway.
func (b *bench) asker(script providertest.Script, network Network, prompts ...string) (*Set, *providertest.Server) {
	server := providertest.New(b.t, script)
	program := executable(b.t)
	keys := filepath.Join(b.dir, "keys")
	require.NoError(b.t, os.Mkdir(keys, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(keys, "key"), []byte(realKey+"\n"), 0o644))
	models := map[string]cost.Prices{"m": {Input: 1_000_000, Output: 2_000_000}}
	return b.set(Config{
		Mounts: []Mount{{Path: b.dir}},
		Providers: map[string]Provider{
			"claude": {Format: wire.Anthropic, BaseURL: server.URL(), KeyFile: "keys/key", Models: models},
			"gpt":    {Format: wire.OpenAI, BaseURL: server.OpenAIURL(), KeyFile: "keys/key", Models: models},
		},
		Agents: map[string]Definition{"x": {
			Kind: KindCommand, Argv: append([]string{program, askArgument}, prompts...), Gateway: []string{"claude", "gpt"},
			Env: []string{"PLAIN"}, Network: network,
		}},
	}), server
}

// TestAnAgentWithAGatewayHoldsNoKey has an agent ask its providers, in every kind of place.
func TestAnAgentWithAGatewayHoldsNoKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		isolation string
		network   Network
	}{
		"without rooms": {IsolationNone, nil}, "host": {IsolationRequired, nil}, "none": {IsolationRequired, Network{"none"}},
		"hosts": {IsolationRequired, Network{"example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.isolation == IsolationRequired {
				inRooms(t)
			}
			b := newBench(t)
			b.isolation = c.isolation
			b.vars["MODEL"] = realKey
			hostile := providertest.Say("I \x1b[2Jlook\u202e.")
			s, server := b.asker(func(providertest.Request) providertest.Reply { return hostile }, c.network, "one", "openai two", "tell")
			job, calls := b.job(), b.calls
			calls.Left = 1_000_000
			out, err := s.Run(t.Context(), job)
			log := string(out.Log)
			require.NoError(t, err, log)
			require.Equal(t, 2, strings.Count(log, "200 "), log)
			require.Equal(t, realKey, server.Requests()[0].Header.Get("X-Api-Key"))
			require.Equal(t, "Bearer "+realKey, server.Requests()[1].Header.Get("Authorization"))
			require.NotContains(t, log, realKey)
			require.Contains(t, log, "PLAIN=seen")
			require.Regexp(t, `(?m)^-- call 1 at [0-9:]{8} to claude: m$`, log, "between the lines that the program prints")
			require.Contains(t, log, "\nI look.\n")
			require.NotContains(t, log, "\x1b")
			require.Contains(t, log, "ANTHROPIC_API_KEY=***", "the token is masked")
			require.Equal(t, "the token is ***", out.Summary)
			counted, broken := server.Total()
			require.Zero(t, broken)
			require.Equal(t, counted.Tokens(), out.Usage.Tokens())
			require.Equal(t, calls.Settled.Add(calls.Abandoned).Add(calls.Unsettled), out.Usage)
			require.Positive(t, out.Usage.CostUSD)
			require.Equal(t, calls.Begun, calls.Ended)
		})
	}
}

// TestAStalledProviderIsNoTimeoutOfItsAgent: a program that prints nothing while its provider sends nothing waits for it.
func TestAStalledProviderIsNoTimeoutOfItsAgent(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]failures.Category{"one": failures.APIError, "stay": failures.Timeout} {
		b := newBench(t)
		s, _ := b.asker(func(providertest.Request) providertest.Reply {
			return providertest.Failing(providertest.Fault{Delay: time.Hour})
		}, nil, prompt)
		d := s.config.Agents["x"]
		d.IdleTimeout = textfmt.Duration(2 * time.Second)
		s.config.Agents["x"] = d
		b.calls.Left = 1_000_000
		_, err := s.Run(t.Context(), b.job())
		require.Equal(t, want, failure(t, err).Category, prompt)
	}
}

// TestARoomDoesNotShowKeys looks for the file of a key below a directory that the room shows.
func TestARoomDoesNotShowKeys(t *testing.T) {
	t.Parallel()
	inRooms(t)
	b := newBench(t)
	b.isolation = IsolationRequired
	s, _ := b.asker(nil, nil)
	d := s.config.Agents["x"]
	d.Argv = []string{"/bin/sh", "-c", "ls " + b.dir + "; cat " + b.dir + "/keys/key; true"}
	s.config.Agents["x"] = d
	b.calls.Left = 0
	out := b.done(s, b.job())
	require.Contains(t, string(out.Log), "keys\n")
	require.Contains(t, string(out.Log), "No such file")

	_, err := New(Config{
		Version: 1, Dir: b.dir, Isolation: IsolationRequired, Mounts: []Mount{{Path: filepath.Join(b.dir, "keys")}},
		Agents: s.config.Agents, Providers: s.config.Providers,
	}, Options{Getenv: func(n string) string { return b.vars[n] }, Now: time.Now})
	require.ErrorContains(t, err, "provider gpt: key_file is in "+filepath.Join(b.dir, "keys")+", which rooms show")

	d.Gateway = nil
	d.Argv = []string{"/bin/sh", "-c", "cat " + b.dir + "/keys/key; true"}
	courier := Definition{Kind: KindDelivery, App: &App{ID: 1, KeyFile: "keys/key"}}
	s = b.set(Config{Mounts: []Mount{{Path: b.dir}}, Agents: map[string]Definition{"x": d, "app": courier}})
	require.Contains(t, string(b.done(s, b.job()).Log), "No such file", "nor the key of one that delivers")
}

// TestTheGatewayEndsAnAttempt has agents that do not mind what the provider answers.
func TestTheGatewayEndsAnAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left  int64
		reply providertest.Reply
		want  failures.Failure
	}{
		"a spent budget": {left: 1, reply: providertest.Say("yes"), want: failures.Failure{
			Category: failures.TokenBudget,
			Message:  "the budget of the team is spent",
		}},
		"an outage": {
			left: 1_000_000, reply: providertest.Failing(providertest.Fault{
				Status: 529, Type: "overloaded_error", Message: "busy",
				RetryAfter: "90",
			}),
			want: failures.Failure{Category: failures.APIError, RetryAfter: 90_000_000_000},
		},
		"a wrong key": {left: 1_000_000, reply: providertest.Unauthorized(), want: failures.Failure{Category: failures.Auth}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s, server := b.asker(func(providertest.Request) providertest.Reply { return c.reply }, nil, "one", "stay")
			job, calls := b.job(), b.calls
			calls.Left = c.left
			out, err := s.Run(t.Context(), job)
			f := failure(t, err)
			require.Equal(t, c.want.Category, f.Category)
			require.Contains(t, f.Message, c.want.Message)
			require.Equal(t, c.want.RetryAfter, f.RetryAfter)
			require.LessOrEqual(t, server.Count(), 1)
			require.Equal(t, calls.Begun, calls.Ended)
			require.Equal(t, calls.Settled.Add(calls.Abandoned).Add(calls.Unsettled), out.Usage)
		})
	}
}

// TestAProgramThatCountsOtherwise is reported, and not believed.
func TestAProgramThatCountsOtherwise(t *testing.T) {
	t.Parallel()
	for said, used := range map[int]cost.Usage{0: {InputTokens: 10, OutputTokens: 5}, 1: {InputTokens: 20, OutputTokens: 5}} {
		b := newBench(t)
		s, _ := b.asker(func(providertest.Request) providertest.Reply { return providertest.Reply{Text: "yes", Usage: used} }, nil,
			"one", "claim")
		differing := 0
		s.o.UsageDiffers = func(string) { differing++ }
		b.calls.Left = 1_000_000
		out := b.done(s, b.job())
		require.Equal(t, said, differing)
		require.Equal(t, used.Tokens(), out.Usage.Tokens())
	}
}

// TestATokenEndsWithItsAttempt: nothing of an attempt is under way when it has ended.
func TestATokenEndsWithItsAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asked := make(chan struct{})
	s, _ := b.asker(func(providertest.Request) providertest.Reply {
		close(asked)
		return providertest.Reply{Text: "never", Fault: providertest.Fault{Delay: time.Hour}}
	}, nil, "one")
	job, calls := b.job(), b.calls
	calls.Left = 1_000_000
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped by a person")
	go func() { <-asked; cancel(stop) }()
	_, err := s.Run(ctx, job)
	require.ErrorIs(t, err, stop)
	require.Equal(t, calls.Begun, calls.Ended)
}

// TestAVariableWithAKeyIsRefused whatever its name is. What a worker file alone tells is refused by its loader.
func TestAVariableWithAKeyIsRefused(t *testing.T) {
	t.Parallel()
	c := Config{Version: 1, Isolation: IsolationNone, Providers: map[string]Provider{
		"claude": {Format: wire.Anthropic, KeyEnv: "CLAUDE_KEY"}, "gpt": {Format: wire.OpenAI, KeyEnv: "GPT_KEY"},
	}, Agents: map[string]Definition{
		"x": {Kind: KindCommand, Argv: []string{"true"}, Gateway: []string{"gpt"}, Env: []string{"COPY"}},
	}}
	require.Equal(t, "gpt", c.BreakerOf("x").Name)
	vars := map[string]string{"CLAUDE_KEY": realKey, "COPY": "user:" + realKey}
	_, err := New(c, Options{Getenv: func(n string) string { return vars[n] }, Now: time.Now})
	require.ErrorContains(t, err, "agent x: variable COPY, which env names, has the key of provider claude; leave it out")
}
