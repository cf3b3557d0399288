package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
)

func TestCommandFailures(t *testing.T) {
	t.Parallel()
	refused := func(result string) string { return "echo '" + result + "' > $MAESTRO_RESULT" }
	for _, c := range []struct {
		shell    string
		category failures.Category
		message  string
	}{
		{`echo first >&2; echo "cannot do it" >&2; exit 4`, failures.Unknown, "exit status 4: cannot do it"},
		{`kill -9 $$`, failures.Unknown, "signal 9"},
		{`yes`, failures.InvalidOutput, "printed more than"},
		{`yes | head -c 11000000; echo "cannot do it" >&2; exit 4`, failures.InvalidOutput, "printed more than"},
		{`printf '\033[31mred\033[0m\n\n' >&2; exit 1`, failures.Unknown, "exit status 1: red"},
		{`head -c 2000000 /dev/zero > $MAESTRO_RESULT`, failures.InvalidOutput, "more than"},
		{`echo '{}' > ../r; ln -s ../r $MAESTRO_RESULT`, failures.InvalidOutput, "cannot be opened"},
		{`mkdir $MAESTRO_RESULT`, failures.InvalidOutput, "not a regular file"},
		{`mkfifo $MAESTRO_RESULT`, failures.InvalidOutput, "not a regular file"},
		{`printf '{"decisions":{"a":"%02000d"}}' 1 > $MAESTRO_RESULT`, failures.InvalidOutput, "at most 1024"},
		{`echo "{\"error\":{\"message\":\"key $API_KEY\"}}" > $MAESTRO_RESULT`, failures.Unknown, "key ***"},
		{refused(`{"sumry":1}`) + "; exit 5", failures.Unknown, "exit status 5"},
		{refused(`{`), failures.InvalidOutput, "not valid JSON"},
		{refused(`{"sumry":"x"}`), failures.InvalidOutput, `unknown field "sumry"`},
		{refused(`{} {}`), failures.InvalidOutput, "unexpected data after the JSON object"},
		{
			refused(`{"usage":{"input_tokens":"7"}}`), failures.InvalidOutput,
			"usage.input_tokens is a JSON string; it must be a whole number",
		},
		{refused(`{"decisions":{"a":["b"]}}`), failures.InvalidOutput, "decisions is a JSON array; it must be a string"},
		{refused(`{"error":{"category":"cancelled"}}`), failures.InvalidOutput, "reserved for Maestro"},
		{refused(`{"error":{"category":"rejected"}}`), failures.InvalidOutput, "write sends_back instead of error"},
		{refused(`{"error":{"category":"time_out"}}`), failures.InvalidOutput, `did you mean "timeout"?`},
		{refused(`{"sends_back":{"reasons":["a",""]}}`), failures.InvalidOutput, "sends_back: reason 2 is empty"},
		{
			refused(`{"sends_back":{"reasons":["a"]},"error":{"message":"b"}}`), failures.InvalidOutput,
			"sends_back and error exclude each other",
		},
	} {
		t.Run(c.shell, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			_, err := b.shell(c.shell).Run(t.Context(), b.job())
			f := failure(t, err)
			require.Equal(t, c.category, f.Category)
			require.Contains(t, f.Message, c.message)
			require.LessOrEqual(t, len(f.Message), session.MaxMessage)
		})
	}
}

func TestWhatIsPrintedCanBeFollowed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.job()
	job.LiveLog = filepath.Join(t.TempDir(), "live.log")
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(victim, job.LiveLog)) // an agent's doing
	type end struct {
		out session.Outcome
		err error
	}
	ended := make(chan end, 1)
	go func() {
		out, err := b.shell(`echo "one $API_KEY" >&2; echo two >&2; while [ ! -e go ]; do sleep 0.05; done; echo three >&2; exit 3`).Run(t.Context(), job)
		ended <- end{out, err}
	}()
	require.Eventually(t, func() bool {
		said, _ := os.ReadFile(job.LiveLog)
		return string(said) == "one ***\ntwo\n"
	}, time.Minute, 10*time.Millisecond, "nothing is heard while it works")
	require.NoError(t, os.WriteFile(b.path("go"), nil, 0o600))
	e := <-ended
	require.Error(t, e.err)
	require.Equal(t, "one ***\ntwo\nthree\n", read(t, job.LiveLog))
	require.True(t, strings.HasPrefix(string(e.out.Log), read(t, job.LiveLog)))
	require.Equal(t, "mine", read(t, victim))

	job.LiveLog = filepath.Join(t.TempDir(), "nowhere", "live.log")
	b.done(b.shell(`true`), job) // who cannot be followed works all the same
}

// TestTranscriptOfAResumedAttempt cuts an attempt off twice: its transcript has what each
// execution said, whose preset it is or none, and none of the attempt before.
func TestTranscriptOfAResumedAttempt(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"", preset.Claude} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			job := b.job()
			job.LiveLog = filepath.Join(t.TempDir(), "live.log")
			job.Continues = true
			run := func(say, ends string) (session.Outcome, error) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				job.Progress = func(line string) {
					if line == say && ends != "" {
						cancel(errors.New("the worker stops"))
					}
				}
				if program == "" {
					return b.shell("echo "+say+" >&2;"+ends).Run(ctx, job)
				}
				return b.standIn(program, says(claudeBegins, `{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"`+say+
					`"}]}}`)+ends+says(claudeEnds)).Run(ctx, job)
			}
			_, err := run("before", "")
			require.NoError(t, err)
			begun := time.Now()
			later := begun.Add(-time.Hour)
			require.NoError(t, os.Chtimes(job.LiveLog, later, later))
			job.Begun = begun
			_, err = run("one", "exec sleep 100;")
			require.Error(t, err)
			f, err := os.OpenFile(job.LiveLog, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = f.WriteString("torn " + secret)
			require.NoError(t, errors.Join(err, f.Close()))
			_, err = run("two", "exec sleep 100;")
			require.Error(t, err)
			out, err := run("three", "")
			require.NoError(t, err)
			require.Regexp(t, `(?s)^one\n.*torn \*\*\*\n.*continues\n.*two\n.*continues\n.*three\n`, string(out.Log))
			require.NotContains(t, string(out.Log), "before")
			require.Equal(t, 1, strings.Count(string(out.Log), "one\n"))
			said, err := os.ReadFile(job.LiveLog)
			require.NoError(t, err)
			require.Equal(t, strings.ReplaceAll(string(said), secret, "***"), string(out.Log), "who follows it reads on")
		})
	}
}

func TestIdleAgentIsStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand,
		Argv: []string{"/bin/sh", "-c", "echo begun; sleep 100"}, IdleTimeout: textfmt.Duration(300 * time.Millisecond),
	}}})
	_, err := b.run(s)
	f := failure(t, err)
	require.Equal(t, failures.Timeout, f.Category)
	require.Contains(t, f.Message, "idle_timeout")
}

// TestWaitingAgentIsNotStopped: its program hangs because a call of it waits for a budget or for the store.
func TestWaitingAgentIsNotStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Argv: []string{"/bin/sh", "-c", "sleep 1; echo x > a.txt"},
		IdleTimeout: textfmt.Duration(100 * time.Millisecond), Timeout: textfmt.Duration(200 * time.Millisecond),
	}}})
	job := b.job()
	job.Waits = session.NewPausedTime(time.Now)
	defer job.Waits.Begin()()
	b.done(s, job)
}

func TestGitAgentFindsItsInputCommitted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.WriteFile(b.path("input.txt"), []byte("x"), 0o600))
	// Git refuses these: an encoding that the files do not have, and a link with this name.
	require.NoError(t, os.WriteFile(b.path(".gitattributes"), []byte("* working-tree-encoding=UTF-16\n"), 0o600))
	require.NoError(t, os.Symlink("input.txt", b.path(".gitmodules")))
	s := b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Git: true, Argv: []string{
			"/bin/sh", "-c",
			`git ls-files > listed; test -z "$(git status --porcelain input.txt)"`,
		},
	}}})
	b.done(s, b.job())
	require.Equal(t, ".gitattributes\ninput.txt\n", read(t, b.path("listed")))
}

func TestEmptyOrAbsentResultIsSuccess(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"true", ": > $MAESTRO_RESULT", "echo '{}' > $MAESTRO_RESULT",
		"echo '{\"error\":null,\"decisions\":null}' > $MAESTRO_RESULT",
	} {
		b := newBench(t)
		fill(t, b.dir, "result/result.json") // of the last attempt
		out := b.done(b.shell(script), b.job())
		require.Empty(t, out.Summary)
		require.Empty(t, out.Decisions)
	}
}

func TestAgentsTmpIsEmpty(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.shell(`ls -A $TMPDIR > left.txt; ls -A $HOME >> left.txt; mkdir -p $TMPDIR/d/e && chmod 0 $TMPDIR/d; touch $HOME/kept`)
	for _, want := range []string{"", "kept\n"} {
		b.done(s, b.job())
		require.Equal(t, want, read(t, b.path("left.txt")))
	}
}

func TestAgentNeedNotReadItsBrief(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"exec true", "exec <&-; sleep 0.05", "head -c 10 > head",
		"cat > all; test $(wc -c < all) -gt 1000000",
	} {
		b := newBench(t)
		job := b.job()
		job.Brief.Requirement = strings.Repeat("long ", 200_000)
		b.done(b.shell(script), job)
	}
}

func TestAgentThatCannotStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "plain"), []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "bad"), []byte("#!/no/such/interpreter\n"), 0o700))
	for program, want := range map[string]string{
		"no-such-program": `cannot start no-such-program: not found in PATH`,
		"./gone":          "no such file or directory",
		"./plain":         "permission denied",
		"./bad":           "no such file or directory",
	} {
		s := b.set(Config{Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{program}}}})
		_, err := b.run(s)
		f := failure(t, err)
		require.Equal(t, failures.ResourceError, f.Category, program)
		require.True(t, f.Final, "waiting does not bring it")
		require.Contains(t, f.Message, want)
	}
}

func TestProgramsOfTheWorkerFileStartFromItsDirectory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.Mkdir(filepath.Join(b.dir, "bin"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "bin/agent"), []byte("#!/bin/sh\ntouch ran\n"), 0o700))
	require.NoError(t, os.WriteFile(b.path("check"), []byte("#!/bin/sh\nexit 0\n"), 0o700))
	s := b.set(Config{
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"bin/agent"}}},
		Checks: map[string]CheckDefinition{"of-the-tree": {Argv: []string{"./check"}}, "gone": {Argv: []string{"./gone"}}},
	})
	b.done(s, b.job())
	require.FileExists(t, b.path("ran"))
	_, err := s.Check(t.Context(), b.checkJob("of-the-tree"))
	require.NoError(t, err)
	_, err = s.Check(t.Context(), b.checkJob("gone"))
	require.Equal(t, failures.TestFailure, failure(t, err).Category, "what the tree lacks is the work's fault")
}

func TestAgentGetsNothingElseOfTheEnvironment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.vars["HIDDEN"], b.vars["LANG"] = "hidden", "de_DE.UTF-8"
	s := b.set(Config{
		Agents: map[string]Definition{"x": {
			Kind: KindCommand, Argv: []string{"env"}, Env: []string{"PLAIN", "UNSET"},
			Caches: []string{"c"},
		}},
		Caches: map[string]Cache{"c": {Env: "MY_CACHE", Shared: true}},
	})
	out := b.done(s, b.job())
	got := map[string]string{}
	for line := range strings.Lines(string(out.Log)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	require.Equal(t, map[string]string{
		"PATH": os.Getenv("PATH"), "LANG": "de_DE.UTF-8", "PLAIN": "seen", "GOFLAGS": "-buildvcs=false",
		"HOME": filepath.Join(b.dir, "home"), "TMPDIR": filepath.Join(b.dir, "tmp"), "GIT_CEILING_DIRECTORIES": b.dir,
		"MY_CACHE": filepath.Join(b.dir, "caches", "c"), "MAESTRO_RESULT": filepath.Join(b.dir, "result", "result.json"),
	}, got)
	info, err := os.Stat(filepath.Join(b.dir, "caches", "c"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestResultIsReadWhereItWasAskedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outside := filepath.Join(t.TempDir(), "result.json")
	require.NoError(t, os.WriteFile(outside, []byte(`{"summary":"foreign"}`), 0o600))
	out := b.done(b.shell(`mv ../result ../moved; ln -s `+filepath.Dir(outside)+` ../result`), b.job())
	require.Empty(t, out.Summary)
	b.done(b.shell("true"), b.job())
	require.FileExists(t, outside, "what is cleared away is the link")
}

func TestGitRepositoryOfTheLastAttemptStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Git: true,
		Argv: []string{"sh", "-c", `echo more >> work; git add work; git commit -qm more; git rev-list --count HEAD`},
	}}})
	for _, want := range []string{"2\n", "3\n"} {
		require.Equal(t, want, string(b.done(s, b.job()).Log))
	}
}

func TestGitTakesNoOrdersFromHome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "home", ".gitconfig"), []byte("[core]\n\tfsmonitor = touch "+b.path("ran")+
		"; false\n"), 0o600))
	s := b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Git: true,
		Argv: []string{"sh", "-c", `git log --format='%an %at %s'`},
	}}})
	s.o.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	require.Equal(t, "Maestro 1700000000 The input of this assignment\n", string(b.done(s, b.job()).Log))
	require.NoFileExists(t, b.path("ran"))
}

func TestChecks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := Config{
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"true"}}},
		Checks: map[string]CheckDefinition{
			"crash": {Argv: []string{"sh", "-c", "echo " + secret + " >&2; kill -SEGV $$"}},
			"gone":  {Argv: []string{"no-such-check"}},
			"good":  {Argv: []string{"true"}, Keep: []string{"*.out"}}, "syntax": {Argv: []string{"false"}, Category: failures.Syntax},
		},
		Secrets: []string{"API_KEY"},
	}
	var s *Set
	var f *failures.Failure
	// a slow machine needs some to print
	for timeout := textfmt.Duration(300 * time.Millisecond); len(b.said) == 0 && timeout.Std() < patience; timeout *= 4 {
		cfg.Checks["slow"] = CheckDefinition{Argv: []string{"sh", "-c", "echo on my way; exec sleep 100"}, Timeout: timeout}
		s = b.set(cfg)
		_, err := s.Check(t.Context(), b.checkJob("slow"))
		f = failure(t, err)
		require.Equal(t, failures.Timeout, f.Category)
		require.Equal(t, "check slow exceeded its timeout of "+timeout.String(), f.Message)
	}
	require.Equal(t, "on my way", f.Output)
	require.Equal(t, []string{"on my way"}, b.said)
	out, err := s.Check(t.Context(), b.checkJob("crash"))
	f = failure(t, err)
	require.Equal(t, failures.TestFailure, f.Category)
	require.Equal(t, "check crash failed: killed by signal 11 (segmentation fault)", f.Message)
	require.Equal(t, "***", f.Output)
	require.NotContains(t, string(out.Log), secret)
	_, err = s.Check(t.Context(), b.checkJob("gone"))
	require.Equal(t, failures.ResourceError, failure(t, err).Category)
	_, err = s.Check(t.Context(), b.checkJob("good"))
	require.NoError(t, err)
	_, err = s.Check(t.Context(), b.checkJob("syntax"))
	require.Equal(t, failures.Syntax, failure(t, err).Category)
	require.Equal(t, []string{"*.out"}, s.Keep("good"))
}
