package agent

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

const secret = "swordfish-0123456789"

// bench is a prepared place for one attempt.
type bench struct {
	t    *testing.T
	dir  string
	vars map[string]string
	mu   sync.Mutex
	said []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"tree", "home", "tmp"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o700))
	}
	return &bench{t: t, dir: dir, vars: map[string]string{"PATH": os.Getenv("PATH"), "API_KEY": secret, "PLAIN": "seen"}}
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, "tree", name) }

func (b *bench) set(cfg Config) *Set {
	b.t.Helper()
	cfg.Version, cfg.Dir = 1, b.dir
	s, err := New(cfg, Options{
		Getenv: func(n string) string { return b.vars[n] }, CacheRoot: filepath.Join(b.dir, "caches"),
		Now: time.Now, Grace: 200 * time.Millisecond,
	})
	require.NoError(b.t, err)
	return s
}

func (b *bench) job() team.Job {
	return team.Job{
		Agent: "x", Dir: filepath.Join(b.dir, "tree"), Home: filepath.Join(b.dir, "home"), Tmp: filepath.Join(b.dir, "tmp"),
		Brief: team.Brief{Session: "s", Phase: "build", Persona: "dev", Round: 1, Attempt: 1, Decisions: map[string]string{"color": "blue"}},
		Progress: func(line string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.said = append(b.said, line)
		},
	}
}

func (b *bench) checkJob(check string) team.CheckJob {
	j := b.job()
	return team.CheckJob{Check: check, Dir: j.Dir, Home: j.Home, Tmp: j.Tmp, Progress: j.Progress}
}

// shell is a command agent that executes a script.
func (b *bench) shell(script string) *Set {
	return b.set(Config{Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/sh", "-c", script}, Env: []string{"API_KEY", "PLAIN"}}}})
}

// played is a scripted agent that plays one play.
func (b *bench) played(play string) *Set {
	b.t.Helper()
	var indented strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(play), "\n") {
		indented.WriteString("      " + line + "\n")
	}
	script := "version: 1\nplays:\n  build/dev:\n    -\n" + indented.String()
	require.NoError(b.t, os.WriteFile(filepath.Join(b.dir, "play.yaml"), []byte(script), 0o600))
	return b.set(Config{Secrets: []string{"API_KEY"}, Agents: map[string]Definition{"x": {Kind: KindScripted, Script: "play.yaml"}}})
}

func failure(t *testing.T, err error) *team.Failure {
	t.Helper()
	var f *team.Failure
	require.ErrorAs(t, err, &f)
	return f
}

// TestAdapters holds both kinds of agent against the same promises.
func TestAdapters(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(b *bench, c conformance) *Set{
		KindCommand:  func(b *bench, c conformance) *Set { return b.shell(c.shell) },
		KindScripted: func(b *bench, c conformance) *Set { return b.played(c.play) },
	} {
		for _, c := range conformances() {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				s := make(b, c)
				job := b.job()
				if c.timeout > 0 {
					job.Timeout = team.Duration(c.timeout)
				}
				out, err := s.Run(t.Context(), job)
				c.holds(t, b, out, err)
			})
		}
	}
}

// conformance is one promise, kept by a shell script and by a play.
type conformance struct {
	name, shell, play string
	timeout           time.Duration
	holds             func(t *testing.T, b *bench, out team.Outcome, err error)
}

func conformances() []conformance {
	return []conformance{
		{
			name:  "leaves files and a result",
			shell: `mkdir -p docs; echo hello > docs/a.md; echo '{"summary":"did it","decisions":{"db":"sqlite"},"usage":{"input_tokens":5,"output_tokens":2,"cost_usd":0.25}}' > $MAESTRO_RESULT`,
			play:  "turns: [{files: {docs/a.md: \"hello\\n\"}, usage: {input_tokens: 5, output_tokens: 2, cost_usd: 0.25}}]\nsummary: did it\ndecisions: {db: sqlite}",
			holds: func(t *testing.T, b *bench, out team.Outcome, err error) {
				require.NoError(t, err)
				data, err := os.ReadFile(b.path("docs/a.md"))
				require.NoError(t, err)
				require.Equal(t, "hello\n", string(data))
				require.Equal(t, "did it", out.Summary)
				require.Equal(t, map[string]string{"db": "sqlite"}, out.Decisions)
				require.Equal(t, team.Usage{InputTokens: 5, OutputTokens: 2, CostUSD: 250_000_000}, out.Usage)
			},
		},
		{
			name:  "a failure it names keeps its category and its usage",
			shell: `echo '{"usage":{"input_tokens":7},"error":{"category":"rate_limited","message":"slow down","retryable":false}}' > $MAESTRO_RESULT`,
			play:  "usage: {input_tokens: 7}\nfail: {category: rate_limited, message: slow down, retryable: false}",
			holds: func(t *testing.T, _ *bench, out team.Outcome, err error) {
				f := failure(t, err)
				require.Equal(t, team.RateLimited, f.Category)
				require.Contains(t, f.Message, "slow down")
				require.False(t, f.RetryAttempt())
				require.Equal(t, int64(7), out.Usage.InputTokens)
			},
		},
		{
			name:  "what it says is progress and log, without secrets",
			shell: `echo "using $API_KEY now" >&2`,
			play:  "turns: [{say: using " + secret + " now}]",
			holds: func(t *testing.T, b *bench, out team.Outcome, err error) {
				require.NoError(t, err)
				require.Contains(t, string(out.Log), "using")
				require.NotContains(t, string(out.Log), secret)
				require.NotEmpty(t, b.said)
				require.NotContains(t, strings.Join(b.said, ""), secret)
			},
		},
		{
			name:  "a decision that holds a secret is refused",
			shell: `echo "{\"decisions\":{\"key\":\"$API_KEY\"}}" > $MAESTRO_RESULT`,
			play:  "decisions: {key: " + secret + "}",
			holds: func(t *testing.T, _ *bench, _ team.Outcome, err error) {
				f := failure(t, err)
				require.Equal(t, team.InvalidOutput, f.Category)
				require.NotContains(t, f.Message, secret)
			},
		},
		{
			name:    "a timeout stops it",
			shell:   `sleep 100`,
			play:    "turns: [{delay: 100s}]",
			timeout: 300 * time.Millisecond,
			holds: func(t *testing.T, _ *bench, _ team.Outcome, err error) {
				f := failure(t, err)
				require.Equal(t, team.Timeout, f.Category)
				require.Contains(t, f.Message, "300ms")
			},
		},
	}
}

func TestCommandFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, shell string
		category    team.Category
		message     string
	}{
		{"exit status", `echo first >&2; echo "cannot do it" >&2; exit 4`, team.Unknown, "exit status 4: cannot do it"},
		{"signal", `kill -9 $$`, team.Unknown, "signal 9"},
		{"result is no JSON", `echo '{' > $MAESTRO_RESULT`, team.InvalidOutput, "not JSON"},
		{"result has an unknown field", `echo '{"sumry":"x"}' > $MAESTRO_RESULT`, team.InvalidOutput, `"sumry" is unknown`},
		{"result has a wrong type", `echo '{"summary":5}' > $MAESTRO_RESULT`, team.InvalidOutput, "summary is a JSON number; it must be a string"},
		{"negative usage", `echo '{"usage":{"input_tokens":-1}}' > $MAESTRO_RESULT`, team.InvalidOutput, "input_tokens is -1"},
		{"unknown category", `echo '{"error":{"category":"oops"}}' > $MAESTRO_RESULT`, team.InvalidOutput, `"oops" is none of`},
		{"result is too long", `head -c 2000000 /dev/zero > $MAESTRO_RESULT`, team.InvalidOutput, "more than"},
		{"result is a link", `echo '{}' > ../r; ln -s ../r $MAESTRO_RESULT`, team.InvalidOutput, "cannot be opened"},
		{"decision is too long", `printf '{"decisions":{"a":"%02000d"}}' 1 > $MAESTRO_RESULT`, team.InvalidOutput, "at most 1024"},
		{"prints without end", `yes`, team.InvalidOutput, "printed more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			_, err := b.shell(c.shell).Run(t.Context(), b.job())
			f := failure(t, err)
			require.Equal(t, c.category, f.Category)
			require.Contains(t, f.Message, c.message)
		})
	}
}

func TestCommandGetsBriefAndEnvironment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.shell(`cat > brief.json; env | sort > env.txt`).Run(t.Context(), b.job())
	require.NoError(t, err)
	brief, err := os.ReadFile(b.path("brief.json"))
	require.NoError(t, err)
	require.JSONEq(t, `{"session":"s","phase":"build","persona":"dev","role":"","instructions":"","requirement":"",
		"decisions":{"color":"blue"},"inputs":[],"round":1,"attempt":1,"feedback":null}`, string(brief))
	env, err := os.ReadFile(b.path("env.txt"))
	require.NoError(t, err)
	for _, want := range []string{"PLAIN=seen", "HOME=" + filepath.Join(b.dir, "home"), "TMPDIR=" + filepath.Join(b.dir, "tmp"), "GOFLAGS=-buildvcs=false"} {
		require.Contains(t, string(env), want)
	}
}

func TestIdleAgentIsStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Argv: []string{"/bin/sh", "-c", "echo begun; sleep 100"}, IdleTimeout: team.Duration(300 * time.Millisecond),
	}}})
	_, err := s.Run(t.Context(), b.job())
	f := failure(t, err)
	require.Equal(t, team.Timeout, f.Category)
	require.Contains(t, f.Message, "idle_timeout")
}

func TestChecks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	check := func(script string, category team.Category) CheckDefinition {
		return CheckDefinition{Argv: []string{"/bin/sh", "-c", script}, Category: category, Keep: []string{"*.out"}}
	}
	s := b.set(Config{
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"true"}}},
		Checks: map[string]CheckDefinition{
			"good": check("exit 0", ""), "bad": check("echo why not; exit 1", ""), "syntax": check("exit 2", team.Syntax),
		},
	})
	run := func(name string) (team.Outcome, error) { return s.Check(t.Context(), b.checkJob(name)) }
	_, err := run("good")
	require.NoError(t, err)
	out, err := run("bad")
	f := failure(t, err)
	require.Equal(t, team.TestFailure, f.Category)
	require.Contains(t, f.Output, "why not")
	require.Contains(t, string(out.Log), "why not")
	_, err = run("syntax")
	require.Equal(t, team.Syntax, failure(t, err).Category)
	require.Equal(t, []string{"*.out"}, s.Keep("good"))
}

func TestGitAgentFindsItsInputCommitted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.WriteFile(b.path("input.txt"), []byte("x"), 0o600))
	s := b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Git: true, Argv: []string{"/bin/sh", "-c", `git ls-files > listed; test -z "$(git status --porcelain input.txt)"`},
	}}})
	_, err := s.Run(t.Context(), b.job())
	require.NoError(t, err)
	listed, err := os.ReadFile(b.path("listed"))
	require.NoError(t, err)
	require.Equal(t, "input.txt\n", string(listed))
}
