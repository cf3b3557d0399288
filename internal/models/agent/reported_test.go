package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
)

// conversationFiles write what the programs note of messages in their own files, as
// the versions in testdata/clis do.
var conversationFiles = map[string]struct {
	path, other string
	// line notes that n messages of 140 tokens read and 30 written have come, the
	// newest twice.
	line func(n int) string
}{
	preset.Claude: {
		".claude/projects/-w-tree/c1.jsonl", ".claude/projects/-w-tree/c1/subagents/agent-1.jsonl",
		func(n int) string {
			const message = `{"type":"assistant","uuid":"u%d-%d","message":{"id":"msg_%d","content":[],"usage":{"input_tokens":100,"cache_read_input_tokens":40,"cache_creation_input_tokens":0,"output_tokens":%d,"service_tier":"standard"}},"requestId":"r"}` + "\n"
			return fmt.Sprintf(message, n, 1, n, 1) + fmt.Sprintf(message, n, 2, n, 30)
		},
	},
	preset.Codex: {
		".codex/sessions/2026/11/22/rollout-2026-11-22T05-25-53-c1.jsonl",
		".codex/sessions/2026/11/22/rollout-2026-11-22T05-26-53-c2.jsonl",
		func(n int) string {
			const count = `{"timestamp":"2026-11-22T05:25:54Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d},"last_token_usage":{"input_tokens":140,"cached_input_tokens":40,"output_tokens":30}},"rate_limits":null}}` + "\n"
			return strings.Repeat(fmt.Sprintf(count, 140*n, 40*n, 30*n), 2)
		},
	},
	preset.Gemini: {
		".gemini/tmp/tree/chats/session-2026-11-22T05-25-c1.jsonl", ".gemini/tmp/tree/chats/session-2026-11-22T05-25-c2.jsonl",
		func(n int) string {
			message := fmt.Sprintf(`{"id":"m%d","type":"gemini","content":"","tokens":{"input":140,"output":18,"cached":40,"thoughts":12,"tool":0,"total":170}}`, n)
			return message + "\n" + `{"$set":{"messages":[{"id":"u","type":"user"},` + message + "]}}\n"
		},
	},
}

// callNamed is a call that is known by its id.
type callNamed struct {
	session.Call
	id string
}

func (n callNamed) ID() string { return n.id }

// TestReportedSinceTheCallBegan reads what programs have noted: each message once, in
// whichever files it is, and none that came before the call.
func TestReportedSinceTheCallBegan(t *testing.T) {
	t.Parallel()
	for program, files := range conversationFiles {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s := b.standIn(program, "true")
			job := b.job()
			dir := job.WorkDir
			add := func(path, text string) {
				path = filepath.Join(job.Home, path)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
				require.NoError(t, err)
				_, err = f.WriteString(text)
				require.NoError(t, err)
				require.NoError(t, f.Close())
			}
			reported := func(call string) (cost.Usage, cost.Usage) {
				used, estimate, ok := s.Reported("x", dir, call)
				require.True(t, ok)
				return counted(used), counted(estimate)
			}
			next := cost.Usage{InputTokens: 130, CacheReadTokens: 40, OutputTokens: 30}
			_, _, ok := s.Reported("x", dir, "0")
			require.False(t, ok, "no call has begun")

			d := s.config.Agents["x"]
			s.beginCall(d, job).begun(job.Home, callNamed{id: "0"})
			used, estimate := reported("0")
			require.Zero(t, used)
			require.Positive(t, estimate.InputTokens, "the first request may be under way")
			add(files.path, files.line(1)+files.line(2)+`{"type":"assistant","message":{"id":"torn","usage":{"input_tok`)
			used, estimate = reported("0")
			require.Equal(t, times(answerCost, 2), used)
			require.Equal(t, next, estimate)

			add(files.path, "\n")
			job.Continues = true
			second := s.beginCall(d, job)
			second.begun(job.Home, callNamed{id: "1"})
			opening := second.begin.Opening
			require.Greater(t, opening.InputTokens, next.InputTokens, "the conversation and the prompt are read")
			used, _ = reported("1")
			require.Zero(t, used, "the call before has booked them")
			_, _, ok = s.Reported("x", dir, "2")
			require.False(t, ok, "a call on another host has noted nothing here")
			add(files.path, files.line(2)+files.line(3))
			if program == preset.Codex {
				add(files.other, files.line(1))
			} else { // a copy, and one more
				add(files.other, files.line(1)+files.line(3)+files.line(4))
			}
			used, estimate = reported("1")
			require.Equal(t, times(answerCost, 2), used)
			require.Equal(t, next, estimate)
		})
	}
}

// TestReportedFromHostileFiles reads what an agent may have put in the place of its
// program's files.
func TestReportedFromHostileFiles(t *testing.T) {
	t.Parallel()
	for program, files := range conversationFiles {
		for name, put := range map[string]func(t *testing.T, path string){
			"a link": func(t *testing.T, path string) {
				outside := filepath.Join(t.TempDir(), "x")
				require.NoError(t, os.WriteFile(outside, []byte(files.line(1)), 0o600))
				require.NoError(t, os.Symlink(outside, path))
			},
			"a linked directory": func(t *testing.T, path string) {
				outside := t.TempDir()
				require.NoError(t, os.WriteFile(filepath.Join(outside, filepath.Base(path)), []byte(files.line(1)), 0o600))
				require.NoError(t, os.Remove(filepath.Dir(path)))
				require.NoError(t, os.Symlink(outside, filepath.Dir(path)))
			},
			"a pipe":      func(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) },
			"a directory": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
			"absurd figures": func(t *testing.T, path string) {
				line := strings.NewReplacer(":140", ":99999999999999999", ":100", ":-5", ":30", ":1e30", "[]", "{}").Replace(files.line(1))
				require.NoError(t, os.WriteFile(path, []byte(line), 0o600))
			},
			"no JSON": func(t *testing.T, path string) {
				require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(files.line(1), "}", "")+"\x00\xff\n\n"), 0o600))
			},
		} {
			t.Run(program+"/"+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				s := b.standIn(program, "true")
				job := b.job()
				s.beginCall(s.config.Agents["x"], job).begun(job.Home, callNamed{id: "0"})
				path := filepath.Join(job.Home, files.path)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				put(t, path)
				used, estimate, ok := s.Reported("x", job.WorkDir, "0")
				require.True(t, ok)
				require.Zero(t, used.Tokens())
				require.Positive(t, estimate.Tokens())
			})
		}
	}
}

// TestReportsWhileItWorks has programs note in their files what their streams do not
// tell before the end.
func TestReportsWhileItWorks(t *testing.T) {
	t.Parallel()
	for program, files := range conversationFiles {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.calls.Left = 2 * answerCost.Tokens()
			script := "f=$HOME/" + files.path + "; mkdir -p $(dirname $f);"
			for n := range 3 {
				script += "cat >> $f <<'EOF'\n" + files.line(n+1) + "EOF\n"
			}
			_, err := b.standIn(program, script+"exec sleep 100").Run(t.Context(), b.job())
			require.Equal(t, failures.TokenBudget, failure(t, err).Category)
			require.Contains(t, failure(t, err).Message, "was stopped: the budget of the team is spent")
			require.Equal(t, times(answerCost, 3), counted(b.calls.Ends[0].Used))
			require.Equal(t, cost.Usage{InputTokens: 130, CacheReadTokens: 40, OutputTokens: 30}, counted(b.calls.Ends[0].Estimate))
		})
	}
}

// TestAnEndlessLineEndsAfterAll: an agent can make a file that costs no space and has no line. What
// follows it counts.
func TestAnEndlessLineEndsAfterAll(t *testing.T) {
	t.Parallel()
	for program, files := range conversationFiles {
		home := t.TempDir()
		path := filepath.Join(home, files.path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		l := preset.NewUsageLog(home, preset.For(program).Usage)
		for _, size := range []int64{30 << 20, 60 << 20} {
			require.NoError(t, os.Truncate(path, size))
			l.Update()
			require.Zero(t, l.Sum, program)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		_, err = f.WriteString("\n" + files.line(1) + "\n")
		require.NoError(t, errors.Join(err, f.Close()))
		l.Update()
		require.NotZero(t, l.Sum, program)
	}
}

// answerCost is what every call of the model costs.
var answerCost = cost.Usage{InputTokens: 100, OutputTokens: 30, CacheReadTokens: 40}

// times is n calls of the model.
func times(u cost.Usage, n int64) cost.Usage {
	return cost.Usage{
		InputTokens: n * u.InputTokens, OutputTokens: n * u.OutputTokens,
		CacheReadTokens: n * u.CacheReadTokens, CacheWriteTokens: n * u.CacheWriteTokens,
	}
}

// counted is a usage without what no server says.
func counted(u cost.Usage) cost.Usage {
	u.CostUSD, u.ReasoningTokens = 0, 0
	return u
}
