package llm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestSendingBack ends the work with reasons in place of files, and is found among the
// stored answers like any other end.
func TestSendingBack(t *testing.T) {
	t.Parallel()
	back := args{"summary": "no", "sends_back": []string{"it does not build", "it holds " + secret}}
	each(t, plays(use("finish", args{"sends_back": []string{" "}}), use("finish", back)), nil,
		func(t *testing.T, b *bench, s *providertest.Server) {
			b.job.Deliver.Produces = []string{"report.md"}
			b.job.Brief.MaySendBack = &session.MaySendBack{To: "build", Left: 2}
			want := []string{"it does not build", "it holds ***"}
			for range 2 {
				out := b.done()
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
