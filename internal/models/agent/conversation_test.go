package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage"
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
	home, err := store.Collect(b.t.Context(), session.Collect{Dir: was.Home, Only: s.ConversationFiles("x", c.Preset), Secrets: s.Secrets()})
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
			_, err := s.Run(t.Context(), job)
			require.NoError(t, err)
			require.True(t, continuable(s, "x", dir))
			require.False(t, continuable(s, "y", dir))
			info, err := os.Stat(filepath.Join(b.dir, preset.ConversationFile))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

			_, err = s.Run(t.Context(), job)
			require.NoError(t, err)
			job.Brief.Feedback = &session.Feedback{Category: failures.TestFailure, Message: "check go-test failed", Output: "--- FAIL", Kept: true}
			_, err = s.Run(t.Context(), job)
			require.NoError(t, err)
			job.Continues = false
			_, err = s.Run(t.Context(), job)
			require.NoError(t, err)

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

// TestConversationMovesWithItsUsage: on another host, what was used before counts as booked.
func TestConversationMovesWithItsUsage(t *testing.T) {
	t.Parallel()
	ends := map[string]string{
		preset.Claude: says(claudeBegins, claudeEnds), preset.Codex: says(codexBegins, codexEnds), preset.Gemini: says(geminiBegins, geminiEnds),
	}
	for program, files := range conversationFiles {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			b, calls := newBench(t), &callLog{}
			f := "$HOME/" + files.path
			s := b.standIn(program, "echo login > $HOME/login; mkdir -p $(dirname "+f+"); n=1; case \"$*\" in *resume*) n=2;; esac;"+
				"if [ $n = 1 ]; then cat > "+f+" <<'EOF'\n"+files.line(1)+"EOF\nelse cat >> "+f+" <<'EOF'\n"+files.line(2)+"EOF\nfi\n"+ends[program])
			job := b.job()
			job.Calls = calls
			_, err := s.Run(t.Context(), job)
			require.NoError(t, err)
			job.WorkDir, job.Continues = b.elsewhere(s), true
			_, err = s.Run(t.Context(), job)
			require.NoError(t, err)
			require.Len(t, calls.settled, 2)
			require.Equal(t, answerCost, counted(calls.settled[0]))
			require.Equal(t, answerCost, counted(calls.settled[1]))
		})
	}
}

func TestUnknownConversationBeginsAnew(t *testing.T) {
	t.Parallel()
	for program, c := range map[string]struct{ refusal, begins, ends string }{
		preset.Claude: {`echo 'No conversation found with session ID: c0' >&2;` + says(`{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"c0","errors":["No conversation found"]}`) + "exit 1", claudeBegins, claudeEnds},
		preset.Codex:  {`echo 'Error: thread/resume: thread/resume failed: no rollout found for thread id c0' >&2; exit 1`, codexBegins, codexEnds},
		preset.Gemini: {`echo 'Error resuming session: Invalid session identifier "c0".' >&2; exit 42`, geminiBegins, geminiEnds},
		// It leads another one without a word, and would not know what to do.
		"codex, mistaken": {says(`{"type":"thread.started","thread_id":"c9"}`) + "exec sleep 100", codexBegins, codexEnds},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			b, calls := newBench(t), &callLog{}
			program, _, _ := strings.Cut(program, ",")
			s := b.standIn(program, notes+`case "$*" in *resume*) `+c.refusal+`;; esac;`+says(c.begins, c.ends))
			job := b.job()
			job.Calls, job.Continues = calls, true
			job.Brief.Requirement = "Build it."
			require.NoError(t, preset.WriteConversation(job.Home, session.Conversation{Preset: program, ID: "c0"}))
			_, err := s.Run(t.Context(), job)
			require.NoError(t, err)
			prompts := b.noted("prompts")
			require.Len(t, prompts, 2)
			require.NotContains(t, prompts[0], "Build it.")
			require.Contains(t, prompts[1], "Build it.")
			got, ok := preset.ReadConversation(job.Home, program)
			require.True(t, ok)
			require.Equal(t, "c1", got.ID)
			require.Len(t, calls.reserved, 1, "it is one attempt")
			require.Equal(t, []cost.Usage{{InputTokens: 1, OutputTokens: 1}}, calls.settled)
		})
	}
}

func TestUnknownConversationIsTriedAnewOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.standIn(preset.Claude, notes+"echo 'No conversation found with session ID: c0' >&2; exit 1")
	job := b.job()
	job.Continues = true
	require.NoError(t, preset.WriteConversation(job.Home, session.Conversation{Preset: preset.Claude, ID: "c0"}))
	_, err := s.Run(t.Context(), job)
	require.Equal(t, failures.Unknown, failure(t, err).Category)
	require.Len(t, b.noted("args"), 2)
}

// TestCodexBooksWhatIsNew is for a program that tells what the conversation has
// cost in all.
func TestCodexBooksWhatIsNew(t *testing.T) {
	t.Parallel()
	b, calls := newBench(t), &callLog{}
	total := func(usage string) string {
		return says(codexBegins, `{"type":"turn.completed","usage":`+usage+`}`)
	}
	s := b.standIn(preset.Codex, `case "$*" in *resume*) `+total(`{"input_tokens":300,"cached_input_tokens":120,"output_tokens":90,"reasoning_output_tokens":36}`)+
		`true;; *) `+total(`{"input_tokens":200,"cached_input_tokens":80,"output_tokens":60,"reasoning_output_tokens":24}`)+`true;; esac`)
	job := b.job()
	job.Calls = calls
	for range 3 {
		_, err := s.Run(t.Context(), job)
		require.NoError(t, err)
		job.Continues = true
	}
	require.Equal(t, []cost.Usage{
		{InputTokens: 120, OutputTokens: 60, CacheReadTokens: 80, ReasoningTokens: 24},
		{InputTokens: 60, OutputTokens: 30, CacheReadTokens: 40, ReasoningTokens: 12},
		{},
	}, calls.settled)
}

func TestCodexBooksAFailedTurn(t *testing.T) {
	t.Parallel()
	const count = `{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":%,"cached_input_tokens":0,"output_tokens":5}}}}`
	rollout := `d=$HOME/.codex/sessions/2026/11/21; mkdir -p $d; { ` +
		says(`{"type":"session_meta"}`, strings.Replace(count, "%", "10", 1), `{"type":"event_msg","payload":{"type":"token_count","info":null}}`, strings.Replace(count, "%", "30", 1), "cut") +
		`} > $d/rollout-2026-11-21T14-51-44-c1.jsonl;`
	fails := says(codexBegins, `{"type":"turn.failed","error":{"message":"high demand"}}`) + "exit 1"
	for name, c := range map[string]struct {
		script string
		used   cost.Usage
	}{
		"a rollout": {rollout + fails, cost.Usage{InputTokens: 30, OutputTokens: 5}},
		"none":      {fails, cost.Usage{}},
		"a link":    {rollout + `mv $d/* $HOME/elsewhere; ln -s $HOME/elsewhere $d/rollout-2026-11-21T14-51-44-c1.jsonl;` + fails, cost.Usage{}},
		"a pipe":    {rollout + `rm $d/*; mkfifo $d/rollout-2026-11-21T14-51-44-c1.jsonl;` + fails, cost.Usage{}},
		"a copy":    {rollout + `cp $d/*.jsonl $d/rollout-2026-11-21T14-51-45-c1.jsonl;` + fails, cost.Usage{InputTokens: 30, OutputTokens: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, calls := newBench(t), &callLog{}
			job := b.job()
			job.Calls = calls
			_, err := b.standIn(preset.Codex, c.script).Run(t.Context(), job)
			require.Equal(t, failures.APIError, failure(t, err).Category)
			require.Equal(t, []cost.Usage{c.used}, calls.settled)
		})
	}
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
			require.NoError(t, os.WriteFile(filepath.Join(b.dir, preset.ConversationFile), []byte(content), 0o600))
			_, ok := preset.ReadConversation(b.job().Home, preset.Claude)
			require.False(t, ok)
		})
	}
	b := newBench(t)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "other"), []byte(`{"preset":"claude","id":"c0"}`), 0o600))
	require.NoError(t, os.Symlink("other", filepath.Join(b.dir, preset.ConversationFile)))
	_, ok := preset.ReadConversation(b.job().Home, preset.Claude)
	require.False(t, ok, "no link is followed")
}

func TestConversationThatHasOutgrownItsModelIsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.standIn(preset.Codex, says(codexBegins, `{"type":"turn.failed","error":{"message":"ran out of room in the context window"}}`)+"exit 1")
	job := b.job()
	_, err := s.Run(t.Context(), job)
	require.Equal(t, failures.ContextOverflow, failure(t, err).Category)
	require.False(t, continuable(s, "x", job.WorkDir))
}

func TestAnotherAgentsWorkEndsTheConversation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.job()
	job.Continues = true
	require.NoError(t, preset.WriteConversation(job.Home, session.Conversation{Preset: preset.Claude, ID: "c0"}))
	_, err := b.shell("true").Run(t.Context(), job)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(b.dir, preset.ConversationFile))
}
