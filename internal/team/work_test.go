package team

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReasonsSayWhatIsWrongInBounds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reasons []string
		wrong   string
	}{
		"one":      {[]string{"the tests do not compile"}, ""},
		"the most": {[]string{strings.Repeat("x", MaxReasons-1), "y"}, ""},
		"none":     {nil, "there are no reasons; list at least one"},
		"blank":    {[]string{"a", " \n"}, "reason 2 is empty"},
		"too long": {[]string{strings.Repeat("x", MaxReasons), "y"}, "have 4097 bytes together; at most 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckReasons(tt.reasons)
			if tt.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.wrong)
		})
	}
}

func TestPassesAreCountedForAllThatWasSentBack(t *testing.T) {
	t.Parallel()
	id := func(phase string) CheckpointAssignment {
		return CheckpointAssignment{AssignmentID: AssignmentID{Phase: phase, Persona: "p"}}
	}
	c := Checkpoint{Reworks: []Rework{
		{To: "build", From: AssignmentID{Phase: "test", Persona: "p"}, Undone: []CheckpointAssignment{id("build"), id("manual")}},
		{To: "build", From: AssignmentID{Phase: "test", Persona: "p"}, Open: []string{"build", "test", "release"}},
	}}
	for phase, pass := range map[string]int{"design": 1, "build": 3, "test": 3, "manual": 2, "release": 2} {
		require.Equal(t, pass, c.Pass(phase), phase)
	}
	require.Equal(t, 1, Checkpoint{}.Pass("build"))
}

func TestPrintableTextIsOneHarmlessLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "",
		" a\tb\r\nc ":            "a b c",
		"\x1b[2Jgone\x07\u202e":  "[2Jgone",
		"日本語 names, and \u00a0é": "日本語 names, and é",
	} {
		require.Equal(t, want, Printable(text))
	}
}
