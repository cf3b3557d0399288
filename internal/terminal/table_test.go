package terminal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/terminal"
)

func TestColoursTakeNoRoomInATable(t *testing.T) {
	t.Parallel()
	write := func(p terminal.Palette) string {
		table := terminal.NewTable(p)
		table.Head("A", "LONGER", "")
		table.Add(terminal.Plain("größer"), terminal.Painted("x", terminal.Red), terminal.Plain("end"))
		table.Add(terminal.Plain("a"), terminal.Plain(""), terminal.Plain(""))
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

func TestEveryStateHasAColour(t *testing.T) {
	t.Parallel()
	on := terminal.Palette{On: true}
	require.Equal(t, "\x1b[31mfailed\x1b[0m", on.State(team.Failed))
	require.Equal(t, "failed", terminal.Palette{}.State(team.Failed))
	require.Equal(t, "of another version", on.State("of another version"))
	require.Equal(t, "", on.Paint(terminal.Red, ""))
}
