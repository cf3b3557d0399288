//go:build system

package system

import (
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
