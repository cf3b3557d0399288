package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

func TestPhaseStandsStillWhenOnlyAPersonCanGoOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states []session.State
		want   bool
	}{
		"one needs help":                 {[]session.State{session.HelpIsNeeded}, true},
		"one needs help, one is done":    {[]session.State{session.Completed, session.HelpIsNeeded}, true},
		"one needs help, one is at work": {[]session.State{session.HelpIsNeeded, session.Running}, false},
		"one needs help, one waits":      {[]session.State{session.Waiting, session.HelpIsNeeded}, false},
		"all are done":                   {[]session.State{session.Completed, session.Restored}, false},
		"none":                           {nil, false},
	} {
		var p session.PhaseStatus
		for _, state := range c.states {
			p.Assignments = append(p.Assignments, session.AssignmentStatus{AssignmentSummary: session.AssignmentSummary{Status: state}})
		}
		require.Equal(t, c.want, waitsForPerson(p), name)
	}
}
