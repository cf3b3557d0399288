package terminal_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
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

func TestFiguresAndTexts(t *testing.T) {
	t.Parallel()
	spent := cost.Amount{Tokens: 1200, USD: 500_000_000}
	for _, c := range [][2]string{
		{"999", terminal.Number(999)},
		{"-1,234,567", terminal.Number(-1234567)},
		{"999", terminal.Short(999)},
		{"412.3k", terminal.Short(412_345)},
		{"98.8G", terminal.Short(98_765_432_100)},
		{"0s", terminal.Age(-time.Second)},
		{"5m 3s", terminal.Age(5*time.Minute + 3*time.Second)},
		{"1d 2h", terminal.Age(26 * time.Hour)},
		{"12ms", terminal.Span(12*time.Millisecond + 300*time.Microsecond)},
		{"1m2s", terminal.Span(time.Minute + 1800*time.Millisecond)},
		{"1,200 tokens", terminal.AmountIn(spent, spec.Cap{Tokens: 5000})},
		{"1,200 tokens and 0.5 USD", terminal.AmountIn(spent, spec.Cap{Tokens: 5000, USD: 1})},
		{"5,000 tokens", terminal.Cap(spec.Cap{Tokens: 5000})},
		{"1,200 tokens, 0.5 USD", terminal.Amount(spent)},
		{"- - -", terminal.Moment(nil) + " " + terminal.Figure(0) + " " + terminal.Dollars(0)},
		{"", terminal.Money(cost.Usage{InputTokens: 3})},
		{"a, b and c", terminal.Enumeration([]string{"a", "b", "c"}, "and")},
		{"one two|three|/a/path/that/is/long|four", strings.Join(terminal.Wrap("one two\nthree /a/path/that/is/long  four", 10), "|")},
	} {
		require.Equal(t, c[0], c[1])
	}
}
