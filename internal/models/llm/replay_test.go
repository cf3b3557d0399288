package llm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

const longTalk = 20

// talk is a conversation of twenty turns that leaves no file as it was.
func talk() providertest.Script {
	call := providertest.Tool
	replies := []providertest.Reply{use("write", args{"path": "log.md", "content": "begin\n"})}
	for turn := 2; turn < longTalk; turn++ {
		reply := providertest.Use(
			call("edit", args{"path": "log.md", "old": "begin\n", "new": fmt.Sprintf("begin\nline %d\n", turn)}),
			call("write", args{"path": fmt.Sprintf("files/%d.sh", turn), "content": fmt.Sprint(turn), "executable": turn%2 == 0}),
			call("list", args{}),
		)
		switch turn {
		case 5:
			reply.Calls = append(reply.Calls, call("decide", args{"name": "database", "value": "sqlite"}))
		case 7:
			reply.Calls = append(reply.Calls, call("delete", args{"path": "files/6.sh"}), call("run_check", args{"name": "test"}))
		case 9:
			reply = providertest.Say("let me think")
		case 11:
			reply.Stop = providertest.Truncated
		case 13:
			reply.Calls = append(reply.Calls, call("edit", args{"path": "log.md", "old": "no such text", "new": ""}))
		}
		reply.Text = fmt.Sprintf("turn %d", turn)
		replies = append(replies, reply)
	}
	return plays(append(replies, finish())...)
}

// talked makes the bench for it.
func talked(b *bench) {
	b.job.Deliver.Checks = []string{"test"}
	b.job.Try = b.try
	b.agent.Prices = &cost.Prices{Input: 3e9, Output: 15e9}
}

// TestReplay kills the worker at every single step of the bookkeeping of a
// conversation of twenty turns, each time in a run of its own, and has another
// worker begin again in a directory filled anew. No call is paid for twice, and
// what comes of it is what comes of it without a death.
func TestReplay(t *testing.T) {
	t.Parallel()
	each(t, talk(), map[string]string{"input": "x"}, func(t *testing.T, b *bench, s *providertest.Server) {
		talked(b)
		want, err := b.run()
		require.NoError(t, err, "%s", want.Log)
		require.Equal(t, longTalk, s.Count())
		files, steps := b.files(), b.calls.Steps
		require.Greater(t, steps, 3*longTalk)
		require.Equal(t, "sqlite", want.Decisions["database"])
		require.NotContains(t, files, "files/6.sh")
		require.NotContains(t, files, "files/11.sh", "the calls of an answer that was cut off are not done")

		stride := 1
		if b.agent.API != wire.Anthropic {
			stride = 5 // the bookkeeping is the same
		}
		for step := 1; step <= steps; step += stride {
			before := s.Count()
			b.calls = callstest.New(-1)
			b.job.Calls = b.calls
			b.calls.KillAfter = step
			b.fill(map[string]string{"input": "x"})
			_, err := b.run()
			require.ErrorIs(t, err, callstest.ErrKilled)
			b.fill(map[string]string{"input": "x"})
			got, err := b.run()
			require.NoError(t, err, "killed after step %d", step)
			require.Equal(t, longTalk, s.Count()-before, "calls, killed after step %d", step)
			require.Equal(t, files, b.files(), "killed after step %d", step)
			require.Equal(t, want.Usage, got.Usage, "killed after step %d", step)
			require.Equal(t, want.Usage, b.booked(), "killed after step %d", step)
			require.Equal(t, want.Decisions, got.Decisions)
			require.Equal(t, want.Summary, got.Summary)
		}
	})
}

// TestKeptToolsDoNotWorkAgain replays a turn whose check would come out another
// way by now.
func TestKeptToolsDoNotWorkAgain(t *testing.T) {
	t.Parallel()
	each(t, plays(use("run_check", args{"name": "test"}), finish()), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		talked(b)
		b.calls.KillAfter = 4 // Stored, Reserve, Settle, KeepTools
		_, err := b.run()
		require.ErrorIs(t, err, callstest.ErrKilled)
		b.fill(map[string]string{"ok": ""})
		b.job.Brief.Inputs = nil
		b.done()
		require.Equal(t, 2, s.Count())
		require.Contains(t, s.Requests()[1].Last().Results[0].Text, "The check failed")
	})
}

// TestAnotherRequestIsAnotherConversation: what was paid for is used for the same
// work only.
func TestAnotherRequestIsAnotherConversation(t *testing.T) {
	t.Parallel()
	each(t, plays(finish()), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.done()
		b.job.Brief.Requirement = "Write something else."
		b.done()
		require.Equal(t, 2, s.Count())
		// A failure after which the conversation continues is no part of it.
		b.job.Brief.Attempt, b.job.Brief.Round = 2, 2
		b.job.Brief.Feedback = session.FeedbackOn(failures.Failf(failures.APIError, "the provider failed"))
		b.done()
		require.Equal(t, 2, s.Count())
		b.job.Brief.Feedback = session.FeedbackOn(failures.Failf(failures.TestFailure, "check test failed"))
		b.job.Brief.Feedback.Diff, b.job.Brief.Feedback.Kept = "+a line", true
		b.done()
		require.Equal(t, 3, s.Count())
		told := s.Requests()[2].Last().Text
		for _, want := range []string{
			"test_failure", "check test failed", "Its changes, which are still there", "+a line",
			"find the cause",
		} {
			require.Contains(t, told, want)
		}
		b.job.Input = "files with the same names and other contents"
		b.done()
		require.Equal(t, 4, s.Count())
	})
}
