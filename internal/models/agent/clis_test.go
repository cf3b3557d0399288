//go:build system

package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
	"github.com/maestro-hive/maestro/internal/testkit/clitest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// The tests here run the agent programs themselves, of the versions that
// testdata/clis/package.json names, against servers on 127.0.0.1 that speak
// their providers' protocols.

// installed returns the directory of the programs, and installs them first if
// they are not there.
var installed = sync.OnceValues(func() (string, error) {
	return clitest.Install("testdata/clis", preset.Claude, preset.Codex, preset.Gemini)
})

// cli is one of the programs, and how it is led to a server of the test.
type cli struct {
	preset string
	// lead makes the agent's definition talk to a base URL.
	lead func(t *testing.T, b *bench, url string) Definition
	// isolation is that of the worker file; empty: without rooms.
	isolation string
}

func clis() []cli {
	return []cli{
		{
			preset: preset.Claude,
			lead: func(_ *testing.T, b *bench, url string) Definition {
				b.vars["ANTHROPIC_BASE_URL"], b.vars["ANTHROPIC_API_KEY"] = url, secret
				b.vars["CLAUDE_CODE_MAX_RETRIES"], b.vars["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1", "1"
				return Definition{Env: []string{
					"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
				}}
			},
		},
		{
			preset: preset.Codex,
			lead: func(_ *testing.T, b *bench, url string) Definition {
				b.vars["CODEX_API_KEY"] = secret
				set := func(key, value string) []string { return []string{"-c", "model_providers.test." + key + "=" + value} }
				return Definition{Env: []string{"CODEX_API_KEY"}, Model: "gpt-5", Argv: slices.Concat(
					[]string{"codex", "exec", "--sandbox", "workspace-write", "-c", "model_provider=test"},
					set("name", "test"), set("base_url", url+"/v1"), set("wire_api", "responses"), set("env_key", "CODEX_API_KEY"),
					set("request_max_retries", "0"), set("stream_max_retries", "0"),
				)}
			},
		},
		{
			preset: preset.Gemini,
			lead: func(t *testing.T, b *bench, url string) Definition {
				b.vars["GOOGLE_GEMINI_BASE_URL"], b.vars["GEMINI_API_KEY"] = url, secret
				geminiSettings(t, b)
				return Definition{Env: []string{"GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"}, Model: "gemini-2.5-pro"}
			},
		},
	}
}

// geminiSettings says what Gemini CLI authenticates with, as it has to be told with a base URL.
func geminiSettings(t *testing.T, b *bench) {
	dir := filepath.Join(b.dir, "home", ".gemini")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	settings := `{"general":{"maxAttempts":1},"security":{"auth":{"selectedType":"gemini-api-key"}}}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "settings.json"), []byte(settings), 0o600))
}

// agent prepares a bench with the program on it, led to a base URL.
func (c cli) agent(t *testing.T, url string) (*bench, *Set) {
	bin, err := installed()
	require.NoError(t, err)
	b := newBench(t)
	b.vars["PATH"] = bin + ":" + os.Getenv("PATH")
	d := c.lead(t, b, url)
	d.Kind, d.Preset = KindCommand, c.preset
	b.isolation = cmp.Or(c.isolation, b.isolation)
	return b, b.set(Config{Agents: map[string]Definition{"x": d}})
}

// result is where the program writes its result.
func (c cli) result(b *bench) string {
	dir := filepath.Join(b.dir, "result")
	if c.isolation == IsolationRequired {
		dir = room.Result
	}
	return filepath.Join(dir, "result.json")
}

// each runs a test for every program.
func each(t *testing.T, test func(t *testing.T, c cli)) {
	t.Parallel()
	for _, c := range clis() {
		t.Run(c.preset, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// eachWay runs a test for every program, with and without rooms.
func eachWay(t *testing.T, test func(t *testing.T, c cli)) {
	t.Parallel()
	for _, isolation := range []string{IsolationNone, IsolationRequired} {
		t.Run(isolation, func(t *testing.T) {
			if isolation == IsolationRequired {
				inRooms(t)
			}
			each(t, func(t *testing.T, c cli) {
				c.isolation = isolation
				test(t, c)
			})
		})
	}
}

// answers is a script in which the model runs the commands, one a turn, and then
// says that it is done.
func (c cli) answers(commands ...string) providertest.Script {
	return func(r providertest.Request) providertest.Reply {
		if turn := r.Turn(); turn <= len(commands) {
			return providertest.Reply{Calls: []providertest.Call{clitest.Run(c.preset, r, commands[turn-1])}, Usage: answerCost}
		}
		return providertest.Reply{Text: "All is done now.", Usage: answerCost}
	}
}

func TestCLIDoesTheWork(t *testing.T) {
	eachWay(t, func(t *testing.T, c cli) {
		var b *bench
		server := providertest.New(t, func(r providertest.Request) providertest.Reply {
			return c.answers(
				"echo hello > made.txt; ls; cat input.txt",
				`echo '{"summary":"made it","decisions":{"db":"sqlite"}}' > `+c.result(b),
			)(r)
		})
		b, s := c.agent(t, server.URL())
		require.NoError(t, os.WriteFile(b.path("input.txt"), []byte("the input\n"), 0o600))
		job, calls := b.job(), b.calls
		calls.Left = -1
		job.Brief.Requirement = "Make made.txt, as only this requirement says."
		out := b.done(s, job)
		require.FileExists(t, b.path("made.txt"), string(out.Log))
		require.Equal(t, "made it", out.Summary)
		require.Equal(t, map[string]string{"db": "sqlite"}, out.Decisions)
		require.Equal(t, 3, server.Count())
		require.Equal(t, times(answerCost, 3), counted(out.Usage))
		require.Equal(t, []cost.Usage{out.Usage}, calls.Each)
		require.Contains(t, string(server.Requests()[0].Body), "as only this requirement says")
		require.Contains(t, string(out.Log), "the input", "what the tools brought")
		require.Contains(t, string(out.Log), "All is done now.")
		require.NotContains(t, string(out.Log), `{"type"`)
		require.NotContains(t, strings.Join(b.said, "\n"), `{"type"`)
		require.Contains(t, b.said, "All is done now.")
	})
}

func TestCLIFailures(t *testing.T) {
	for name, f := range map[string]struct {
		reply    providertest.Reply
		category failures.Category
	}{
		"401":      {providertest.Unauthorized(), failures.Auth},
		"429":      {providertest.RateLimited("1"), failures.RateLimited},
		"500":      {providertest.ServerError(), failures.APIError},
		"overflow": {providertest.ContextOverflow(), failures.ContextOverflow},
		"cut":      {providertest.Reply{Text: "All is done now.", Fault: providertest.Fault{CutAfter: 100}}, failures.APIError},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, c cli) {
				server := providertest.New(t, func(providertest.Request) providertest.Reply { return f.reply })
				b, s := c.agent(t, server.URL())
				out, err := b.run(s)
				got := failure(t, err)
				require.Equal(t, f.category, got.Category, "%s\n%s", got.Message, out.Log)
				require.Equal(t, f.category != failures.Auth, got.RetryRound())
				if f.category == failures.RateLimited && c.preset != preset.Codex { // which does not say
					require.Equal(t, textfmt.Duration(time.Second), got.RetryAfter)
				}
				require.NotContains(t, got.Message+got.Output+string(out.Log), secret)
			})
		})
	}
}

// recorded reports whether a file of a program's HOME contains a text.
func recorded(home, text string) bool {
	found := false
	_ = filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			data, _ := os.ReadFile(path)
			found = found || bytes.Contains(data, []byte(text))
		}
		return nil
	})
	return found
}

// elsewhere moves the bench to other directories, with what a store keeps of a conversation,
// and removes its own.
func (b *bench) elsewhere(s *Set) session.WorkDir {
	b.t.Helper()
	was := b.job().WorkDir
	c, ok := s.Conversation("x", was)
	require.True(b.t, ok)
	dir := b.t.TempDir()
	blobs, err := storage.NewDirectory(dir, time.Now)
	require.NoError(b.t, err)
	store := cas.New(blobs, cas.Options{StoreDir: dir})
	tree, err := store.Collect(b.t.Context(), session.Collect{Dir: was.Tree})
	require.NoError(b.t, err)
	home, err := store.Collect(b.t.Context(), session.Collect{
		Dir: was.Home, Only: s.ConversationFiles("x", c.Preset),
		Secrets: s.Secrets(),
	})
	require.NoError(b.t, err)
	require.NotEmpty(b.t, home.Changed)
	require.NoError(b.t, os.RemoveAll(b.dir))
	b.dir = newBench(b.t).dir
	now := b.job().WorkDir
	require.NoError(b.t, store.Materialise(b.t.Context(), tree.Output, now.Tree))
	require.NoError(b.t, store.Materialise(b.t.Context(), home.Output, now.Home))
	require.NoError(b.t, s.NoteConversation(now, c))
	return now
}

// TestCLIContinues cuts a program off while it waits for an answer, and has it
// continue: what was paid before is part of the conversation, and only what is
// new is paid. In a room it continues also on another host, with its files and the
// conversation's, and nothing else.
func TestCLIContinues(t *testing.T) {
	eachWay(t, func(t *testing.T, c cli) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("the worker is lost")
		var cut sync.Once
		var home string
		server := providertest.New(t, func(r providertest.Request) providertest.Reply {
			// Not by turns: programs add messages of their own when they continue.
			for _, command := range []string{"echo first | tee -a made.txt; printf result-%s 42", "echo second | tee -a made.txt"} {
				if strings.Contains(string(r.Body), command) {
					continue
				}
				reply := providertest.Reply{Calls: []providertest.Call{clitest.Run(c.preset, r, command)}, Usage: answerCost}
				if strings.Contains(command, "second") {
					cut.Do(func() {
						// Programs write their conversations late: this is not the test of that.
						assert.Eventually(t, func() bool { return recorded(home, "result-42") }, time.Minute, 10*time.Millisecond)
						cancel(stop)
						reply.Fault.Delay = time.Minute // it ends when the program does
					})
				}
				return reply
			}
			return providertest.Reply{Text: "All is done now.", Usage: answerCost}
		})
		b, s := c.agent(t, server.URL())
		first := callstest.New(-1)
		job := b.job()
		home = job.Home
		job.Calls = first
		job.Brief.Requirement = "The requirement is said once."
		_, err := s.Run(ctx, job)
		require.ErrorIs(t, err, stop)
		require.Equal(t, answerCost, counted(first.Ends[0].Used), "the request that was answered")
		require.GreaterOrEqual(t, first.Ends[0].Estimate.Tokens(), answerCost.Tokens(), "the one that was under way")
		require.True(t, continuable(s, "x", job.WorkDir))
		before := server.Count()
		if c.isolation == IsolationRequired {
			job.WorkDir = b.elsewhere(s)
			if c.preset == preset.Gemini {
				geminiSettings(t, b)
			}
		}

		second := callstest.New(-1)
		job.Calls, job.Continues = second, true
		b.done(s, job)
		require.Equal(t, "first\nsecond\n", read(t, b.path("made.txt")), "nothing is done twice")
		after := server.Requests()[before:]
		require.Len(t, after, 2)
		require.Equal(t, 1, strings.Count(string(after[0].Body), "The requirement is said once."))
		require.Contains(t, string(after[0].Body), "You were interrupted")
		require.Equal(t, times(answerCost, 2), counted(second.Each[0]), "what the first run has booked is not booked again")
	})
}

func TestCLIThatHasForgotten(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		server := providertest.New(t, c.answers("echo hello > made.txt"))
		b, s := c.agent(t, server.URL())
		job := b.job()
		require.NoError(t, WriteConversation(job.Home, session.Conversation{
			Preset: c.preset, ID: "8b0ff4a4-6d8a-4a3c-9c5e-0d6f7c1b2a3d",
		}))
		job.Continues = true
		job.Brief.Requirement = "The requirement is said anew."
		out := b.done(s, job)
		require.FileExists(t, b.path("made.txt"), string(out.Log))
		require.Contains(t, string(server.Requests()[0].Body), "The requirement is said anew.")
		require.Equal(t, times(answerCost, 2), counted(out.Usage))
	})
}
