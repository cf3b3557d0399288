package llm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestSendingBack ends the work with reasons in place of files, and is found among the
// stored answers like any other end.
func TestSendingBack(t *testing.T) {
	t.Parallel()
	back := args{"summary": "no", "sends_back": []string{"it does not build", "it holds " + secret}}
	each(t, plays(use("finish", args{"sends_back": []string{" "}}), use("finish", back)), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.job.Deliver.Produces = []string{"report.md"}
		b.job.Brief.MaySendBack = &session.MaySendBack{To: "build", Left: 2}
		want := []string{"it does not build", "it holds ***"}
		for range 2 {
			out, err := b.run()
			require.NoError(t, err)
			require.Equal(t, want, out.SendsBack, "and no file is asked for")
			require.Equal(t, "no", out.Summary)
		}
		require.Equal(t, 2, s.Count(), "nothing is asked twice")
		first, second := s.Requests()[0], s.Requests()[1]
		require.Contains(t, string(first.Body), "sends_back")
		require.Contains(t, string(first.Body), "This is possible 2 more times")
		require.Contains(t, second.Last().Results[0].Text, "reason 1 is empty")
	})
}

// TestHastySendingBack does not end the work when another call of the answer failed.
func TestHastySendingBack(t *testing.T) {
	t.Parallel()
	hasty := providertest.Use(
		providertest.Tool("read", args{"path": "missing"}), providertest.Tool("finish", args{"sends_back": []string{"nothing is there"}}))
	each(t, plays(hasty, finish()), nil, func(t *testing.T, b *bench, _ *providertest.Server) {
		b.job.Brief.MaySendBack = &session.MaySendBack{To: "build", Left: 1}
		out, err := b.run()
		require.NoError(t, err)
		require.Empty(t, out.SendsBack)
	})
}

// TestOthersAreHeard tells a model what people and later phases have said, in every
// attempt, and what it may do about it only where it may.
func TestOthersAreHeard(t *testing.T) {
	t.Parallel()
	each(t, plays(finish()), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		_, err := b.run()
		require.NoError(t, err)
		require.NotContains(t, string(s.Requests()[0].Body), "sends_back")
		for _, test := range []struct {
			feedback *session.Feedback
			told     []string
			not      string
		}{
			{&session.Feedback{Note: "mind the tests"}, []string{"A person who reviewed it wrote: mind the tests"}, "What went wrong before"},
			{
				&session.Feedback{Category: failures.APIError, Message: "down", Note: "mind the time", SentBack: "ada rejected the work:\n- too slow"},
				[]string{"A person who reviewed it wrote: mind the time", "Why the work was sent back before that", "- too slow"},
				"down",
			},
			{
				&session.Feedback{Category: failures.Rejected, Message: "test/tester sent the work back (1 of 2)", Output: "- it does not build", Advice: "Go on.", Kept: true},
				[]string{"# The work was sent back", "test/tester sent the work back (1 of 2)", "The reasons:\n\n```\n- it does not build"},
				"Its changes",
			},
		} {
			b.job.Brief.Feedback = test.feedback
			_, err := b.run()
			require.NoError(t, err)
			requests := s.Requests()
			told := requests[len(requests)-1].Last().Text
			for _, want := range test.told {
				require.Contains(t, told, want)
			}
			require.NotContains(t, told, test.not)
		}
	})
}
