package system

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
)

// startFragile starts a worker that dies where the failpoint says.
func (w *world) startFragile(failpoint string) *process {
	w.t.Helper()
	return w.serves(w.startWith([]string{"MAESTRO_FAILPOINT=" + failpoint}, filepath.Join(programs, fragileWorker), "--drain", "1s"))
}

// TestWorkerKilledBetweenTwoLines kills a worker at the points where a crash
// could do most harm, and lets another one finish.
func TestWorkerKilledBetweenTwoLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ session, failpoint string }{
		{"result-recorded-not-completed", "recorded, not completed@3"},
		{"checkpoint-without-a-row", "checkpoint stored, no row@3"},
		{"checkpoint-not-mirrored", "checkpoint stored, not mirrored@3"},
		{"half-a-checkpoint", "/checkpoint_@2"},
		{"half-of-the-first-blob", "/blobs/@1"},
		{"half-an-assignments-blob", "/blobs/@6"},
		{"half-a-later-blob", "/blobs/@11"},
		{"agent-ended-not-collected", "agent ended, not collected@2"},
		{"collected-not-checked", "collected, not checked@2"},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			teamFile := w.withHoldingAgent()
			worker := w.startFragile(c.failpoint)
			w.start(filepath.Join(programs, "maestro"), "run", teamFile, "survive", "--session", c.session)
			w.dies(worker)
			require.Contains(t, worker.output.String(), "failpoint: ")
			w.startWorker()
			s := w.completes(c.session)
			w.sound(s)
		})
	}
}

// TestWorkerKilledWhileItSpends kills a worker before and after the end of a call, and after the end of its agent. Nothing of
// its team's day is lost, and an agent whose end was noted is paid once.
func TestWorkerKilledWhileItSpends(t *testing.T) {
	t.Parallel()
	if now := time.Now().UTC(); now.Add(limit).Day() != now.Day() {
		t.Skip("the day ends soon")
	}
	for _, c := range []struct {
		session, failpoint string
		spent              int64
	}{
		{"begun", "call begun@2", 180},
		{"booked", "call booked@1", 180},
		{"ended", "agent ended, not collected@1", 180},
		{"collected", "collected, not checked@1", 180},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write("agents.yaml", `{version: 1, agents: {coder: {kind: command, argv: [/bin/sh, -c, 'echo x > $RANDOM.txt; echo "{\"usage\":{\"output_tokens\":60}}" > $MAESTRO_RESULT']}}}`)
			teamFile := w.write("team.yaml", `{version: 1, name: daily, budget: {daily: {tokens: 320}},
				personas: {dev: {role: r, agent: coder, instructions: do}}, phases: [{name: one, personas: [dev]}, {name: two, personas: [dev]}, {name: three, personas: [dev]}]}`)
			worker := w.startFragile(c.failpoint)
			w.start(filepath.Join(programs, "maestro"), "run", teamFile, "survive", "--session", c.session)
			w.dies(worker)
			require.Contains(t, worker.output.String(), "failpoint: ")
			w.startWorker()
			s := w.completes(c.session)
			require.Equal(t, c.spent, s.Usage.Tokens())

			var day struct{ Reserved, Unsettled, Spent cost.Amount }
			require.NoError(t, json.Unmarshal([]byte(w.must("budget", "show", "--team", "daily", "-o", "json")), &day))
			require.Zero(t, day.Reserved, "all that is not spent is given back")
			var budgets struct {
				Open []struct{ Estimate cost.Amount }
			}
			require.NoError(t, json.Unmarshal([]byte(w.must("budget", "show", c.session, "-o", "json")), &budgets))
			want := c.spent
			for _, open := range budgets.Open {
				want += open.Estimate.Tokens
			}
			require.Equal(t, want, day.Spent.Add(day.Unsettled).Tokens, "what nobody knows counts as spent")
		})
	}
}
