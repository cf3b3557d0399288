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
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// askArgument makes the test binary an agent that sends prompts, its arguments up to a flag, to the
// provider of its environment. It prints its environment and the answers, and a prompt that is JSON.
// The prompt "stay" has it stay, whatever the provider answers,
// "claim" report that it has used ten tokens and five, and "tell" say its token.
const askArgument = "__test-ask"

func ask(prompts []string) (failed error) {
	fmt.Println(strings.Join(os.Environ(), "\n"))
	for _, prompt := range prompts {
		switch prompt[0] {
		case '-':
			return failed
		case '{':
			fmt.Println(prompt)
			continue
		}
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
	program, err := os.Executable()
	require.NoError(b.t, err)
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
			s, server := b.asker(func(providertest.Request) providertest.Reply { return providertest.Say("yes") }, c.network, "one",
				"openai two", "tell")
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

// TestTheLogOfAnAgentHasItsCalls reads the log of an agent at work, which is killed then.
func TestTheLogOfAnAgentHasItsCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hostile := "I \x1b[2Jlook\u202e."
	s, _ := b.asker(func(r providertest.Request) providertest.Reply {
		if r.N == 2 {
			return providertest.Reply{Text: strings.Repeat("half an answer ", 200), Fault: providertest.Fault{Stall: time.Hour}}
		}
		return providertest.Reply{
			Text:  hostile,
			Calls: []providertest.Call{{Name: "run\x1b[31m", Arguments: `{"command":"ls\u001b[2J"}`}},
		}
	}, nil, "one with "+realKey, "two")
	job, calls := b.job(), callstest.New(1_000_000)
	job.Calls, job.LiveLog = calls, filepath.Join(t.TempDir(), "live.log")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			reported := 0
			calls.Locked(func() { reported = len(calls.Live) })
			if live, _ := os.ReadFile(job.LiveLog); reported > 1 && strings.Contains(string(live), "\n? user: two\n") {
				return // the second answer has begun
			}
			time.Sleep(time.Millisecond)
		}
	}()
	out, err := s.Run(ctx, job)
	require.Error(t, err)
	log := string(out.Log)
	require.Regexp(t, `(?m)^-- call 1 at [0-9:]{8} to claude: m$`, log)
	for _, item := range []string{"? user: one with ***\n", "I look.\n", "> run ls\n", "-- call 1: tool_use after "} {
		require.Contains(t, log, "\n"+item, "between the lines that the program prints")
	}
	require.Regexp(t, `(?m)^-- call 2: broken off after `, log, "a call that the program does not live to see")
	require.NotContains(t, log, "\x1b")
	require.Equal(t, calls.Begun, calls.Ended)
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
	out, err := s.Run(t.Context(), b.job())
	require.NoError(t, err)
	require.Contains(t, string(out.Log), "keys\n")
	require.Contains(t, string(out.Log), "No such file")

	_, err = New(Config{
		Version: 1, Dir: b.dir, Isolation: IsolationRequired, Mounts: []Mount{{Path: filepath.Join(b.dir, "keys")}},
		Agents: s.config.Agents, Providers: s.config.Providers,
	}, Options{Getenv: func(n string) string { return b.vars[n] }, Now: time.Now})
	require.ErrorContains(t, err, "provider gpt: key_file is in "+filepath.Join(b.dir, "keys")+", which rooms show")

	d.Gateway = nil
	d.Argv = []string{"/bin/sh", "-c", "cat " + b.dir + "/keys/key; true"}
	courier := Definition{Kind: KindDelivery, App: &App{ID: 1, KeyFile: "keys/key"}}
	out, err = b.run(b.set(Config{Mounts: []Mount{{Path: b.dir}}, Agents: map[string]Definition{"x": d, "app": courier}}))
	require.NoError(t, err)
	require.Contains(t, string(out.Log), "No such file", "nor the key of one that delivers")
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
		out, err := s.Run(t.Context(), b.job())
		require.NoError(t, err)
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

// TestGatewaysThatCannotBe lists what is refused of a worker file, or of its environment.
func TestGatewaysThatCannotBe(t *testing.T) {
	t.Parallel()
	providers := map[string]Provider{
		"claude": {Format: wire.Anthropic, KeyEnv: "CLAUDE_KEY"}, "other": {Format: wire.Anthropic, KeyEnv: "OTHER_KEY"},
		"gpt": {Format: wire.OpenAI, KeyEnv: "GPT_KEY"}, "google": {Format: wire.Gemini, KeyEnv: "GOOGLE_KEY"},
	}
	for message, d := range map[string]Definition{
		"agents.x.gateway[0] \"claud\" is not among the providers; did you mean \"claude\"?": {Gateway: []string{"claud"}},
		"agents.x.gateway[1] has format anthropic, as claude has": {Gateway: []string{
			"claude",
			"other",
		}},
		"agents.x.web_tools has an effect only with a gateway and a network that is not host": {
			Gateway:  []string{"claude"},
			WebTools: true,
		},
		"agents.x.gateway has no provider of format openai, which preset codex needs": {
			Gateway: []string{"claude"},
			Preset:  "codex",
		},
		"agents.x.env[0] is GPT_KEY, which leads past the gateway or holds a key": {
			Gateway: []string{"claude"},
			Env:     []string{"GPT_KEY"},
		},
		"agents.x.env[0] is ANTHROPIC_AUTH_TOKEN, which leads past the gateway or holds a key": {
			Gateway: []string{"claude"},
			Env:     []string{"ANTHROPIC_AUTH_TOKEN"},
		},
		"agents.x.env[0] is GOOGLE_GEMINI_BASE_URL, which leads past the gateway or holds a key": {
			Gateway: []string{"google"},
			Env:     []string{"GOOGLE_GEMINI_BASE_URL"},
		},
		"agent x: variable COPY, which env names, has the key of provider claude; leave it out": {
			Gateway: []string{"gpt"},
			Env:     []string{"COPY"},
		},
		"agents.x.reserve is set, but the gateway sets aside what each call may cost": {
			Gateway: []string{"claude"},
			Reserve: spec.Cap{Tokens: 5},
		},
		"agents.x.prices is set, but the gateway books each call at the prices of its provider": {
			Gateway: []string{"claude"},
			Prices:  &cost.Prices{},
		},
		"agents.x.breaker is set, but the agent has the breaker of its provider": {
			Gateway: []string{"claude"},
			Breaker: spec.Breaker{Threshold: 2},
		},
		"agents.x.provider has format gemini, which kind model does not speak; use preset gemini": {
			Kind: KindModel, Provider: "google",
			Model: "m",
		},
	} {
		if d.Kind == "" {
			d.Kind, d.Argv = KindCommand, []string{"true"}
		}
		vars := map[string]string{"CLAUDE_KEY": realKey, "COPY": "user:" + realKey}
		_, err := New(Config{Version: 1, Isolation: IsolationNone, Agents: map[string]Definition{"x": d}, Providers: providers},
			Options{Getenv: func(n string) string { return vars[n] }, Now: time.Now})
		require.ErrorContains(t, err, message)
	}
	c := Config{
		Agents:    map[string]Definition{"x": {Kind: KindCommand, Preset: "claude", Gateway: []string{"claud"}}},
		Providers: providers,
	}
	_, err := New(c, Options{Getenv: os.Getenv, Now: time.Now})
	require.NotContains(t, err.Error(), "has no provider of format", "a name that is wrong is one mistake")
	c = Config{
		Agents:    map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"a"}, Gateway: []string{"gpt"}}},
		Providers: providers,
	}
	require.Equal(t, "gpt", c.BreakerOf("x").Name)
}
