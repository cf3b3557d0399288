package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

func TestPhaseStandsStillWhenOnlyAPersonCanGoOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states []team.State
		want   bool
	}{
		"one needs help":                 {[]team.State{team.HelpIsNeeded}, true},
		"one needs help, one is done":    {[]team.State{team.Completed, team.HelpIsNeeded}, true},
		"one needs help, one is at work": {[]team.State{team.HelpIsNeeded, team.Running}, false},
		"one needs help, one waits":      {[]team.State{team.Waiting, team.HelpIsNeeded}, false},
		"all are done":                   {[]team.State{team.Completed, team.Restored}, false},
		"none":                           {nil, false},
	} {
		var p team.PhaseStatus
		for _, state := range c.states {
			p.Assignments = append(p.Assignments, team.AssignmentStatus{Status: state})
		}
		require.Equal(t, c.want, standsStill(p), name)
	}
}

func TestADrawnDifferenceHasShortNames(t *testing.T) {
	t.Parallel()
	name, none := strings.Repeat("4b", 20), strings.Repeat("0", 40)
	drawn := withShortNames("index " + none + ".." + name + " 100644\n+index " + name + ".." + none + "\n")
	require.Equal(t, "index 0000000000..4b4b4b4b4b 100644\n+index "+name+".."+none+"\n", drawn, "a file's own lines stay")
}
