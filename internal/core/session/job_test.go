package session

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

func TestReasonsSayWhatIsWrongInBounds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reasons []string
		wrong   string
	}{
		"one":      {[]string{"the tests do not compile"}, ""},
		"the most": {[]string{strings.Repeat("x", MaxReasons-1), "y"}, ""},
		"none":     {nil, "missing reasons; list at least one"},
		"blank":    {[]string{"a", " \n"}, "reason 2 is empty"},
		"too long": {[]string{strings.Repeat("x", MaxReasons), "y"}, "have 12289 bytes together; at most 12288"},
	} {
		err := CheckReasons(tt.reasons)
		if tt.wrong == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, tt.wrong, name)
	}
}

func TestWhatIsDoneAgainWasSentBack(t *testing.T) {
	t.Parallel()
	id := func(phase string) CheckpointAssignment {
		return CheckpointAssignment{AssignmentID: spec.AssignmentID{Phase: phase, Persona: "p"}}
	}
	second := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	c := Checkpoint{Reworks: []Rework{
		{
			At: second.Add(-time.Hour), To: "build", From: spec.AssignmentID{Phase: "test", Persona: "p"},
			Undone: []CheckpointAssignment{id("build"), id("manual")},
		},
		{At: second, To: "build", From: spec.AssignmentID{Phase: "test", Persona: "p"}, Open: []string{"build", "test", "release"}},
	}}
	for phase, times := range map[string]int{"design": 0, "build": 2, "test": 2, "manual": 1, "release": 1} {
		require.Equal(t, times, c.SentBack(phase, time.Time{}), phase)
	}
	for phase, times := range map[string]int{"build": 1, "manual": 0} {
		require.Equal(t, times, c.SentBack(phase, second), "what was sent back before, an earlier run has done again")
	}
	require.Zero(t, Checkpoint{}.SentBack("build", time.Time{}))
}
