//go:build system

package system

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// steps is a model that has a file written in three steps, one a call. The last step is held
// until the program is gone as often as holds says; held gets each.
type steps struct {
	conversing
	mu        sync.Mutex
	holds     int
	held      chan struct{}
	delivered int64
}

func (s *steps) reply(r providertest.Request) providertest.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range []string{"one", "two", "three"} {
		command := "echo " + step + " | tee -a made.txt"
		if strings.Contains(string(r.Body), command) {
			continue
		}
		reply := providertest.Reply{Calls: []providertest.Call{s.run(r, command)}, Usage: callCost}
		if step == "three" && s.holds > 0 {
			s.holds--
			s.held <- struct{}{}
			reply.Fault.Delay = limit // it ends with the program
			return reply
		}
		s.delivered++
		return reply
	}
	s.delivered++
	return providertest.Reply{Text: "All is done.", Usage: callCost}
}

// waits waits until the program waits for its model's third answer, and has noted the second.
func (s *steps) waits(w *world) {
	w.t.Helper()
	select {
	case <-s.held:
	case <-time.After(limit):
		require.Fail(w.t, "the program has not come to its third call", w.must("status", "talk"))
	}
	w.eventually("the program has noted its second step", func() bool { return w.noted(stepNoted("two")) })
}

// moves leaves the store alone, under another path: it removes what agents have worked in and what
// the host remembers.
func (w *world) moves(name string) {
	w.t.Helper()
	for _, dir := range []string{"/work", "/layers", "/index", ".work"} {
		require.NoError(w.t, os.RemoveAll(w.state+dir))
	}
	next := filepath.Join(w.dir, name, "state")
	require.NoError(w.t, os.Mkdir(filepath.Dir(next), 0o755))
	require.NoError(w.t, os.Rename(w.state, next))
	w.state = next
}

// TestConversationContinuesOnAnotherHost stops a worker whose agent program waits for its
// model, and kills the next one in the same place. Each time the next worker has other
// directories. The third continues the conversation as the first has left it, and what was
// answered is paid once.
func TestConversationContinuesOnAnotherHost(t *testing.T) {
	t.Parallel()
	clis := maps.Clone(conversingCLIs)
	clis["claude with a gateway"] = conversing{
		func(bin, _ string) string {
			return "{kind: command, preset: claude, argv: [" + bin + "/claude, --permission-mode, acceptEdits, --allowedTools, Bash], gateway: [p], network: none, env: [CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC]}"
		},
		conversingCLIs["claude"].run,
	}
	for preset, c := range clis {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			permitsRooms(t)
			w, s := newWorld(t), &steps{conversing: c, holds: 2, held: make(chan struct{}, 2)}
			server := providertest.New(t, s.reply)
			teamFile, start := w.converse(c, server.URL(), "isolation: required\nproviders: {p: {format: anthropic, base_url: '"+server.URL()+"', key_env: CODEX_API_KEY}}\n")
			first := start()
			w.must("run", teamFile, "parts", "--session", "talk")
			s.waits(w)
			first.signal(syscall.SIGTERM)
			w.dies(first)
			w.moves("second")

			before := len(server.Requests())
			second := start()
			s.waits(w)
			require.Len(t, server.Requests(), before+1)
			require.Contains(t, string(server.Requests()[before].Body), "You were interrupted")
			second.kill()
			w.moves("third")

			start()
			done := w.completes("talk")
			require.Len(t, server.Requests(), before+3, "the answer that was lost again, and the last")
			require.Equal(t, s.delivered*callCost.InputTokens, done.Usage.InputTokens)
			require.Equal(t, s.delivered*callCost.OutputTokens, done.Usage.OutputTokens)
			w.madeInSteps()
		})
	}
}

// madeInSteps requires that each step was done once, and that the store is sound.
func (w *world) madeInSteps() {
	w.t.Helper()
	out := filepath.Join(w.dir, "out")
	w.must("artifacts", "get", "talk", "--out", out)
	w.must("checkpoints", "verify", "--all")
	data, err := os.ReadFile(filepath.Join(out, "made.txt"))
	require.NoError(w.t, err)
	require.Equal(w.t, "one\ntwo\nthree\n", string(data))
}

// TestConversationContinuesAfterImport: another store and another cluster have the session, and
// nothing else of the first ones. The workers are not root.
func TestConversationContinuesAfterImport(t *testing.T) {
	t.Parallel()
	for preset, c := range conversingCLIs {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			permitsRooms(t)
			s := &steps{conversing: c, holds: 1, held: make(chan struct{}, 1)}
			server := providertest.New(t, s.reply)
			from := newWorld(t)
			teamFile, start := from.converse(c, server.URL(), "isolation: required\n")
			if os.Geteuid() == 0 {
				from.asNobody()
			}
			worker := start()
			from.must("run", teamFile, "parts", "--session", "talk")
			s.waits(from)
			worker.signal(syscall.SIGTERM)
			from.dies(worker)
			archive := filepath.Join(from.dir, "talk.tar.gz")
			from.must("checkpoints", "export", "talk", "--transcripts", "--out", archive)
			require.NoError(t, os.RemoveAll(from.state))

			to := newWorld(t)
			_, start = to.converse(c, server.URL(), "isolation: required\n")
			if os.Geteuid() == 0 {
				to.asNobody()
			}
			before := len(server.Requests())
			start()
			to.must("checkpoints", "import", archive)
			to.must("resume", "talk")
			done := to.completes("talk")
			require.Len(t, server.Requests(), before+2)
			require.Contains(t, string(server.Requests()[before].Body), "You were interrupted")
			require.Equal(t, s.delivered*callCost.InputTokens, done.Usage.InputTokens)
			to.madeInSteps()
		})
	}
}
