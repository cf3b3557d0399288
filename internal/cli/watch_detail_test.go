package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
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

func TestADrawnDifferenceHasShortNames(t *testing.T) {
	t.Parallel()
	name, none := strings.Repeat("4b", 20), strings.Repeat("0", 40)
	drawn := shortenObjectNames("index " + none + ".." + name + " 100644\n+index " + name + ".." + none + "\n")
	require.Equal(t, "index 0000000000..4b4b4b4b4b 100644\n+index "+name+".."+none+"\n", drawn, "a file's own lines stay")
}
