package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

const secret = "swordfish-0123456789"

// bench is a prepared place for one attempt.
type bench struct {
	// workRoot is the root of layers; empty: there are none.
	workRoot string
	t        *testing.T
	dir      string
	vars     map[string]string
	// calls books the calls of its jobs.
	calls *callstest.Account
	// isolation is that of worker files without one, and of workers that are processes of
	// their own.
	isolation string
	// without is what the kernel lacks for these.
	without proctest.Feature
	mu      sync.Mutex
	said    []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { _ = bounded.RemoveTree(dir) }) // whatever modes an agent has set
	for _, d := range []string{"tree", "home", "tmp"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o700))
	}
	return &bench{
		t: t, dir: dir, calls: callstest.New(-1), isolation: IsolationNone,
		vars: map[string]string{"PATH": os.Getenv("PATH"), "API_KEY": secret, "PLAIN": "seen"},
	}
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, "tree", name) }

func (b *bench) set(cfg Config, hidden ...string) *Set {
	b.t.Helper()
	cfg.Version, cfg.Dir = 1, b.dir
	setDefault(&cfg.Isolation, b.isolation)
	s, err := New(cfg, Options{
		Getenv: func(n string) string { return b.vars[n] }, CacheRoot: filepath.Join(b.dir, "caches"), Hidden: hidden,
		Now: time.Now, Grace: 200 * time.Millisecond, WorkRoot: b.workRoot,
	})
	require.NoError(b.t, err)
	return s
}

func (b *bench) job() session.Job {
	return session.Job{
		Agent: "x", WorkDir: session.WorkDir{
			Tree: filepath.Join(b.dir, "tree"), Home: filepath.Join(b.dir, "home"),
			Tmp: filepath.Join(b.dir, "tmp"),
		},
		Brief: session.Brief{
			Session: "s", Phase: "build", Persona: "dev", Round: 1, Attempt: 1,
			Decisions: map[string]string{"color": "blue"},
		},
		Calls: b.calls,
		Progress: func(line string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.said = append(b.said, line)
		},
	}
}

func (b *bench) checkJob(check string) session.CheckJob {
	j := b.job()
	return session.CheckJob{Check: check, WorkDir: j.WorkDir, Progress: j.Progress}
}

// run does one attempt.
func (b *bench) run(s *Set) (session.Outcome, error) { return s.Run(b.t.Context(), b.job()) }

// done is the outcome of a job that succeeds.
func (b *bench) done(s *Set, job session.Job) session.Outcome {
	b.t.Helper()
	out, err := s.Run(b.t.Context(), job)
	require.NoError(b.t, err, string(out.Log))
	return out
}

// executable is this test binary, which is several programs.
func executable(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return self
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// answersIn are the answers of a script to its questions, each on a line of its own.
func answersIn(log []byte) map[string]string {
	said := map[string]string{}
	for line := range strings.Lines(string(log)) {
		what, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		said[what] += text
	}
	return said
}

// shell is a command agent that executes a script.
func (b *bench) shell(script string) *Set {
	return b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Argv: []string{"/bin/sh", "-c", script},
		Env: []string{"API_KEY", "PLAIN"},
	}}})
}

func failure(t *testing.T, err error) *failures.Failure {
	t.Helper()
	var f *failures.Failure
	require.ErrorAs(t, err, &f)
	return f
}

// TestAdapters holds all kinds of agent against the same promises, as far as they
// apply to them.
func TestAdapters(t *testing.T) {
	t.Parallel()
	for _, on := range []struct {
		kind, isolation string
		format          wire.API
	}{
		{kind: KindCommand, isolation: IsolationNone},
		{kind: KindCommand, isolation: IsolationRequired},
		{kind: "anthropic", isolation: IsolationNone, format: wire.Anthropic},
		{kind: "openai", isolation: IsolationNone, format: wire.OpenAI},
	} {
		for _, c := range conformances() {
			if on.kind != KindCommand && c.model == nil {
				continue // about processes
			}
			t.Run(on.kind+"/"+on.isolation+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				if b.isolation = on.isolation; b.isolation == IsolationRequired {
					inRooms(t)
				}
				var s *Set
				if on.kind == KindCommand {
					s = b.shell(c.shell)
				} else {
					s = b.asked(on.format, c.model...)
				}
				job := b.job()
				job.Brief.MaySendBack = &session.MaySendBack{To: "design", Left: 1}
				job.Timeout = textfmt.Duration(c.timeout)
				run := s.Run
				if c.until != "" {
					run = func(context.Context, session.Job) (session.Outcome, error) { return b.timedOut(s, job, c.until) }
				}
				out, err := run(t.Context(), job)
				c.holds(t, b, out, err)
			})
		}
	}
}

// asked is a model that gives one reply after the other, the last one again and
// again.
func (b *bench) asked(format wire.API, replies ...providertest.Reply) *Set {
	b.t.Helper()
	server := providertest.New(b.t, func(r providertest.Request) providertest.Reply {
		return replies[min(r.Turn(), len(replies))-1]
	})
	base := server.URL()
	if format == wire.OpenAI {
		base = server.OpenAIURL()
	}
	return b.set(modelConfig(Provider{
		Format: format, BaseURL: base, KeyEnv: "API_KEY",
		Models: map[string]cost.Prices{"m": {Input: 40_000_000_000_000, Output: 25_000_000_000_000}},
	}))
}

// calls is a reply that calls a tool so many times.
func calls(times int, used cost.Usage, tool string, arguments any) providertest.Reply {
	call := providertest.Tool(tool, arguments)
	return providertest.Reply{Usage: used, Calls: slices.Repeat([]providertest.Call{call}, times)}
}

// conformance is one promise, kept by a shell script and by a model.
type conformance struct {
	name, shell string
	model       []providertest.Reply
	timeout     time.Duration
	// until is the file that the agent leaves before a timeout ends it; empty: none.
	until string
	holds func(t *testing.T, b *bench, out session.Outcome, err error)
}

func conformances() []conformance {
	return []conformance{
		{
			name:  "leaves files and a result",
			shell: `mkdir -p docs; echo hello > docs/a.md; echo '{"summary":"did it","decisions":{"db":"sqlite"},"usage":{"input_tokens":5,"output_tokens":2,"cost_usd":0.25}}' > $MAESTRO_RESULT`,
			model: []providertest.Reply{{
				Usage: cost.Usage{InputTokens: 5, OutputTokens: 2},
				Calls: []providertest.Call{
					providertest.Tool("write", map[string]string{"path": "docs/a.md", "content": "hello\n"}),
					providertest.Tool("decide", map[string]string{"name": "db", "value": "sqlite"}),
					providertest.Tool("finish", map[string]string{"summary": "did it"}),
				},
			}},
			holds: func(t *testing.T, b *bench, out session.Outcome, err error) {
				require.NoError(t, err)
				require.Equal(t, "hello\n", read(t, b.path("docs/a.md")))
				require.Equal(t, "did it", out.Summary)
				require.Equal(t, map[string]string{"db": "sqlite"}, out.Decisions)
				require.Equal(t, cost.Usage{InputTokens: 5, OutputTokens: 2, CostUSD: 250_000_000}, out.Usage)
			},
		},
		{
			name:  "a failure it names keeps its category and its usage",
			shell: `echo '{"usage":{"input_tokens":7},"error":{"category":"rate_limited","message":"slow down","retryable":false,"retry_after":"90s"}}' > $MAESTRO_RESULT`,
			holds: func(t *testing.T, _ *bench, out session.Outcome, err error) {
				f := failure(t, err)
				require.Equal(t, failures.RateLimited, f.Category)
				require.Contains(t, f.Message, "slow down")
				require.Equal(t, 90*time.Second, f.RetryAfter.Std())
				require.False(t, f.RetryAttempt())
				require.Equal(t, int64(7), out.Usage.InputTokens)
			},
		},
		{
			name:  "a decision that holds a secret is refused",
			shell: `echo "{\"decisions\":{\"key\":\"$API_KEY\"}}" > $MAESTRO_RESULT`,
			model: []providertest.Reply{calls(6, cost.Usage{}, "decide", map[string]string{"name": "key", "value": secret})},
			holds: func(t *testing.T, _ *bench, _ session.Outcome, err error) {
				f := failure(t, err)
				require.Equal(t, failures.InvalidOutput, f.Category)
				require.NotContains(t, f.Message, secret)
			},
		},
		{
			name:    "a timeout stops it",
			shell:   `sleep 100`,
			model:   []providertest.Reply{{Fault: providertest.Fault{Delay: time.Hour}}},
			timeout: 300 * time.Millisecond,
			holds: func(t *testing.T, _ *bench, _ session.Outcome, err error) {
				f := failure(t, err)
				require.Equal(t, failures.Timeout, f.Category)
				require.Contains(t, f.Message, "300ms")
			},
		},
		{
			name:  "what it used before it was stopped is counted",
			shell: `echo '{"usage":{"input_tokens":7}}' > $MAESTRO_RESULT; echo begun > begun; sleep 100`,
			model: []providertest.Reply{
				calls(1, cost.Usage{InputTokens: 7}, "write", map[string]string{"path": "begun", "content": "x"}),
				{Fault: providertest.Fault{Delay: time.Hour}},
			},
			until: "begun",
			holds: func(t *testing.T, b *bench, out session.Outcome, err error) {
				require.Equal(t, failures.Timeout, failure(t, err).Category)
				require.FileExists(t, b.path("begun"))
				require.Equal(t, int64(7), out.Usage.InputTokens)
			},
		},
		{
			name: "its own evidence goes before what it printed",
			shell: `echo "what I saw" >&2; echo '{"error":{"category":"syntax","message":"no","output":"line 1: oops ` + secret +
				`"}}' > $MAESTRO_RESULT`,
			holds: func(t *testing.T, _ *bench, _ session.Outcome, err error) {
				f := failure(t, err)
				require.Equal(t, failures.Syntax, f.Category)
				require.Equal(t, "line 1: oops ***", f.Output)
			},
		},
		{
			name:  "texts are masked and bounded",
			shell: `printf '{"summary":"%s %0900d"}' "$API_KEY" 1 > $MAESTRO_RESULT`,
			model: []providertest.Reply{calls(1, cost.Usage{}, "finish",
				map[string]string{"summary": secret + " " + strings.Repeat("0", 900)})},
			holds: func(t *testing.T, _ *bench, out session.Outcome, err error) {
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(out.Summary, "*** 000"))
				require.LessOrEqual(t, len(out.Summary), session.MaxSummary)
			},
		},
		{
			name:  "it sends work back, with reasons",
			shell: `echo "{\"summary\":\"no\",\"sends_back\":{\"reasons\":[\"it does not build\",\"it holds $API_KEY\"]}}" > $MAESTRO_RESULT`,
			model: []providertest.Reply{providertest.Use(providertest.Tool("finish",
				map[string]any{"summary": "no", "sends_back": []string{"it does not build", "it holds " + secret}}))},
			holds: func(t *testing.T, _ *bench, out session.Outcome, err error) {
				require.NoError(t, err)
				require.Equal(t, "no", out.Summary)
				require.Equal(t, []string{"it does not build", "it holds ***"}, out.SendsBack)
			},
		},
	}
}
