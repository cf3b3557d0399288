package team_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

// TestRoundLogCountsWhoWasLost goes through executions as Temporal counts them.
func TestRoundLogCountsWhoWasLost(t *testing.T) {
	t.Parallel()
	failed := make([]team.AttemptReport, 2)
	tests := map[string]struct {
		log       team.RoundLog
		execution int
		relieved  bool
		lost      bool
		want      team.RoundLog
	}{
		"the first": {execution: 1},
		"after a failed attempt and a hand-over": {
			log: team.RoundLog{Attempts: failed[:1], HandedOver: 1}, execution: 3,
			want: team.RoundLog{Attempts: failed[:1], HandedOver: 1},
		},
		"after two without a word":              {execution: 3, lost: true, want: team.RoundLog{Lost: 2}},
		"after one whose loss is counted":       {log: team.RoundLog{Lost: 1}, execution: 2, want: team.RoundLog{Lost: 1}},
		"after one more":                        {log: team.RoundLog{Lost: 1}, execution: 3, lost: true, want: team.RoundLog{Lost: 2}},
		"of an activity that goes on":           {log: team.RoundLog{HandedOver: 2, Lost: 1, Earlier: 3}, execution: 1, want: team.RoundLog{HandedOver: 2, Lost: 1, Earlier: 3}},
		"of one that goes on, after one":        {log: team.RoundLog{HandedOver: 2, Earlier: 2}, execution: 2, lost: true, want: team.RoundLog{HandedOver: 2, Lost: 1, Earlier: 2}},
		"that was reset":                        {log: team.RoundLog{Attempts: failed, Lost: 1}, execution: 1, want: team.RoundLog{Attempts: failed, Lost: 1}},
		"that has waited for a failed attempt":  {log: team.RoundLog{Attempts: failed[:1]}, execution: 2, relieved: true, want: team.RoundLog{Attempts: failed[:1]}},
		"the fourth that has waited for one":    {log: team.RoundLog{Attempts: failed[:1]}, execution: 4, relieved: true, want: team.RoundLog{Attempts: failed[:1], Idle: 2}},
		"after a failed attempt of that fourth": {log: team.RoundLog{Attempts: failed, Idle: 2}, execution: 5, want: team.RoundLog{Attempts: failed, Idle: 2}},
		"after it was lost":                     {log: team.RoundLog{Attempts: failed[:1], Idle: 2}, execution: 5, lost: true, want: team.RoundLog{Attempts: failed[:1], Idle: 2, Lost: 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := test.log
			test.want.Executions = test.execution
			require.Equal(t, test.lost, log.Begin(test.execution, test.relieved))
			require.Equal(t, test.want, log)
		})
	}
}
