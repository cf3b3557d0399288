package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
)

// notes is a shell script's beginning that notes its arguments and its prompt,
// those of every run.
const notes = `printf '%s\n' "$@" "---" >> "$HOME/args"; cat >> "$HOME/prompts"; echo "---" >> "$HOME/prompts";`

// noted returns what the runs were given, one entry a run.
func (b *bench) noted(name string) []string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, "home", name))
	require.NoError(b.t, err)
	return strings.Split(strings.TrimSuffix(string(data), "---\n"), "---\n")
}

func continuable(s *Set, agent string, dir session.WorkDir) bool {
	_, ok := s.Conversation(agent, dir)
	return ok
}

func TestConversationGoesOn(t *testing.T) {
	t.Parallel()
	for program, c := range map[string]struct{ begins, ends, flags string }{
		preset.Claude: {claudeBegins, claudeEnds, "--resume\nc1\n"},
		preset.Codex:  {codexBegins, codexEnds, "resume\nc1\n-\n"},
		preset.Gemini: {geminiBegins, geminiEnds, "--resume\nc1\n"},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s := b.standIn(program, notes+says(c.begins, c.ends))
			job := b.job()
			job.Brief.Requirement = "Build it."
			dir := job.WorkDir
			require.False(t, continuable(s, "x", dir))
			job.Continues = true // with nothing to continue
			b.done(s, job)
			require.True(t, continuable(s, "x", dir))
			require.False(t, continuable(s, "y", dir))
			info, err := os.Stat(filepath.Join(b.dir, conversationFile))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

			b.done(s, job)
			job.Brief.Feedback = &session.Feedback{
				Category: failures.TestFailure, Message: "check go-test failed", Output: "--- FAIL",
				Kept: true,
			}
			b.done(s, job)
			job.Continues = false
			b.done(s, job)

			args, prompts := b.noted("args"), b.noted("prompts")
			for i, goesOn := range []bool{false, true, true, false} {
				require.Equal(t, goesOn, strings.HasSuffix(args[i], c.flags), args[i])
				require.Equal(t, goesOn, !strings.Contains(prompts[i], "Build it."))
				require.Contains(t, prompts[i], filepath.Join(b.dir, "result", "result.json"))
			}
			require.Contains(t, prompts[1], "You were interrupted")
			require.Contains(t, prompts[2], "it failed as described below")
			require.Contains(t, prompts[2], "check go-test failed")
			require.Contains(t, prompts[3], "check go-test failed")
		})
	}
}

func TestUnknownConversationBeginsAnew(t *testing.T) {
	t.Parallel()
	for program, c := range map[string]struct{ refusal, begins, ends string }{
		preset.Claude: {`echo 'No conversation found with session ID: c0' >&2;` +
			says(`{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"c0","errors":["No conversation found"]}`) + "exit 1", claudeBegins, claudeEnds},
		preset.Codex: {
			`echo 'Error: thread/resume: thread/resume failed: no rollout found for thread id c0' >&2; exit 1`, codexBegins,
			codexEnds,
		},
		preset.Gemini: {`echo 'Error resuming session: Invalid session identifier "c0".' >&2; exit 42`, geminiBegins, geminiEnds},
		// It leads another one without a word, and would not know what to do.
		"codex, mistaken": {says(`{"type":"thread.started","thread_id":"c9"}`) + "exec sleep 100", codexBegins, codexEnds},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			program, _, _ := strings.Cut(program, ",")
			s := b.standIn(program, notes+`case "$*" in *resume*) `+c.refusal+`;; esac;`+says(c.begins, c.ends))
			job := b.job()
			job.Continues = true
			job.Brief.Requirement = "Build it."
			require.NoError(t, WriteConversation(job.Home, session.Conversation{Preset: program, ID: "c0"}))
			b.done(s, job)
			prompts := b.noted("prompts")
			require.Len(t, prompts, 2)
			require.NotContains(t, prompts[0], "Build it.")
			require.Contains(t, prompts[1], "Build it.")
			got, ok := ReadConversation(job.Home, program)
			require.True(t, ok)
			require.Equal(t, "c1", got.ID)
			require.Len(t, b.calls.Plans, 1, "it is one attempt")
			require.Equal(t, []cost.Usage{{InputTokens: 1, OutputTokens: 1}}, b.calls.Each)
		})
	}
}

func TestUnknownConversationIsTriedAnewOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.standIn(preset.Claude, notes+"echo 'No conversation found with session ID: c0' >&2; exit 1")
	job := b.job()
	job.Continues = true
	require.NoError(t, WriteConversation(job.Home, session.Conversation{Preset: preset.Claude, ID: "c0"}))
	_, err := s.Run(t.Context(), job)
	require.Equal(t, failures.Unknown, failure(t, err).Category)
	require.Len(t, b.noted("args"), 2)
}

// TestCodexBooksWhatIsNew is for a program that tells what the conversation has
// cost in all.
func TestCodexBooksWhatIsNew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	total := func(usage string) string {
		return says(codexBegins, `{"type":"turn.completed","usage":`+usage+`}`)
	}
	s := b.standIn(preset.Codex, `case "$*" in *resume*) `+
		total(`{"input_tokens":300,"cached_input_tokens":120,"output_tokens":90,"reasoning_output_tokens":36}`)+
		`true;; *) `+total(`{"input_tokens":200,"cached_input_tokens":80,"output_tokens":60,"reasoning_output_tokens":24}`)+
		`true;; esac`)
	job := b.job()
	for range 3 {
		b.done(s, job)
		job.Continues = true
	}
	require.Equal(t, []cost.Usage{
		{InputTokens: 120, OutputTokens: 60, CacheReadTokens: 80, ReasoningTokens: 24},
		{InputTokens: 60, OutputTokens: 30, CacheReadTokens: 40, ReasoningTokens: 12},
		{},
	}, b.calls.Each)
}

func TestConversationFileThatIsNotOurs(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"a flag":            `{"preset":"claude","id":"--dangerously-skip-permissions"}`,
		"a path":            `{"preset":"claude","id":"../../x"}`,
		"another preset":    `{"preset":"codex","id":"c0"}`,
		"no id":             `{"preset":"claude"}`,
		"no JSON":           `c0`,
		"a negative amount": `{"preset":"claude","id":"c0","booked":{"input_tokens":-5}}`,
		"too long":          `{"preset":"claude","id":"c0"` + strings.Repeat(" ", 4<<10) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			require.NoError(t, os.WriteFile(filepath.Join(b.dir, conversationFile), []byte(content), 0o600))
			_, ok := ReadConversation(b.job().Home, preset.Claude)
			require.False(t, ok)
		})
	}
	b := newBench(t)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "other"), []byte(`{"preset":"claude","id":"c0"}`), 0o600))
	require.NoError(t, os.Symlink("other", filepath.Join(b.dir, conversationFile)))
	_, ok := ReadConversation(b.job().Home, preset.Claude)
	require.False(t, ok, "no link is followed")
}

func TestConversationThatHasOutgrownItsModelIsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.standIn(preset.Codex, says(codexBegins,
		`{"type":"turn.failed","error":{"message":"ran out of room in the context window"}}`)+"exit 1")
	_, err := b.run(s)
	require.Equal(t, failures.ContextOverflow, failure(t, err).Category)
	require.False(t, continuable(s, "x", b.job().WorkDir))
}

func TestAnotherAgentsWorkEndsTheConversation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.job()
	job.Continues = true
	require.NoError(t, WriteConversation(job.Home, session.Conversation{Preset: preset.Claude, ID: "c0"}))
	b.done(b.shell("true"), job)
	require.NoFileExists(t, filepath.Join(b.dir, conversationFile))
}
