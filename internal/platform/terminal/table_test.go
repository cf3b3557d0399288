package terminal_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func TestColoursTakeNoRoomInATable(t *testing.T) {
	t.Parallel()
	write := func(p terminal.Palette) string {
		table := terminal.NewTable(p, "A", "LONGER", "")
		table.Add("größer", terminal.Painted("x", terminal.Red), "end")
		table.Add("a", "", "")
		var b strings.Builder
		table.Write(&b)
		return b.String()
	}
	const want = "A       LONGER\ngrößer  x       end\na\n"
	require.Equal(t, want, write(terminal.Palette{}))
	painted := write(terminal.Palette{On: true})
	require.Contains(t, painted, "\x1b[31mx\x1b[0m")
	require.Equal(t, want, strings.NewReplacer("\x1b[31m", "", "\x1b[1m", "", "\x1b[0m", "").Replace(painted))
}

func TestALastColumnFitsIntoALine(t *testing.T) {
	t.Parallel()
	write := func(width int) string {
		table := terminal.NewTable(terminal.Palette{}, "PHASE", "STATE", "")
		table.Add("design", "completed", strings.Repeat("an architecture ", 10))
		table.Add("testing", "pending")
		table.Fit(width)
		var b strings.Builder
		table.Write(&b)
		return b.String()
	}
	longest := func(text string) int {
		longest := 0
		for line := range strings.Lines(text) {
			longest = max(longest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		return longest
	}
	const others = len("testing") + 2 + len("completed") + 2
	require.Equal(t, 80, longest(write(80)))
	require.Equal(t, others+159, longest(write(200)), "nothing is clipped that has room")
	require.Equal(t, others+20, longest(write(10)), "the words stay recognisable")
	require.Equal(t, others+60, longest(write(0)))
	require.Contains(t, write(80), "\ntesting  pending\n")
}
