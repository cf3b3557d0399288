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

func TestWhatIsDoneAgainWasSentBack(t *testing.T) {
	t.Parallel()
	id := func(phase string) CheckpointAssignment {
		return CheckpointAssignment{AssignmentID: AssignmentID{Phase: phase, Persona: "p"}}
	}
	c := Checkpoint{Reworks: []Rework{
		{To: "build", From: AssignmentID{Phase: "test", Persona: "p"}, Undone: []CheckpointAssignment{id("build"), id("manual")}},
		{To: "build", From: AssignmentID{Phase: "test", Persona: "p"}, Open: []string{"build", "test", "release"}},
	}}
	for phase, times := range map[string]int{"design": 0, "build": 2, "test": 2, "manual": 1, "release": 1} {
		require.Equal(t, times, c.SentBack(phase), phase)
	}
	require.Zero(t, Checkpoint{}.SentBack("build"))
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

func TestPassesBeginWhereWorkIsBegunAfresh(t *testing.T) {
	t.Parallel()
	done := &RoundResult{}
	round := func(run string, epoch int, result *RoundResult) RoundRecord {
		return RoundRecord{Key: RoundKey{Run: run}, Epoch: epoch, Result: result}
	}
	mended := round("b", 2, done)
	mended.Integrating = true
	r := Record{Rounds: []RoundRecord{
		round("a", 1, nil), round("a", 1, done), // a second round
		round("a", 2, done), // sent back
		mended,              // mends the merged work of the same pass
		round("c", 2, nil),  // begun again in a later incarnation
	}}
	require.Equal(t, []int{1, 1, 2, 2, 3}, r.Passes())
	require.Empty(t, Record{}.Passes())
}
