package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/team"
)

// printJSON writes a document to standard output.
func (a *app) printJSON(document any) error {
	e := json.NewEncoder(a.env.Stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(document)
}

// palette paints text for terminals; switched off it leaves text alone.
type palette struct{ on bool }

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	bold   = "1"
	dim    = "2"
)

func (p palette) paint(colour, text string) string {
	if !p.on || text == "" || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// state paints a state in the colour of its meaning.
func (p palette) state(s team.State) string { return p.paint(stateColour(s), string(s)) }

func stateColour(s team.State) string {
	switch s {
	case team.Completed, team.Restored, team.Supplied, team.Skipped:
		return green
	case team.Failed, team.HelpIsNeeded, team.WasCancelled:
		return red
	case team.Running, team.Admitted:
		return cyan
	case team.Waiting, team.WaitingForBreaker, team.AwaitingApproval:
		return yellow
	case team.Pending:
		return dim
	}
	return ""
}

// table aligns columns. Cells may be painted afterwards, so that colours do not
// count as width.
type table struct {
	paint palette
	rows  [][]cell
}

type cell struct{ text, colour string }

func plain(text string) cell { return cell{text: text} }

func (t *table) head(names ...string) {
	row := make([]cell, len(names))
	for i, n := range names {
		row[i] = cell{n, bold}
	}
	t.rows = append(t.rows, row)
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// write prints the table, two spaces between columns and none at line ends.
func (t *table) write(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range t.rows {
		var b strings.Builder
		gap := 0
		for i, c := range row {
			if c.text == "" {
				gap += widths[i] + 2
				continue
			}
			b.WriteString(strings.Repeat(" ", gap) + t.paint.paint(c.colour, c.text))
			gap = widths[i] - utf8.RuneCountInString(c.text) + 2
		}
		_, _ = fmt.Fprintln(w, b.String())
	}
}

// number writes n with thin groups of three, as people read large numbers.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count is a number and its noun.
func count(n int, noun string) string { return team.Count(n, noun) }

// verbed is a number, its noun, and the verb that goes with it.
func verbed(n int, noun, one, many string) string {
	if n == 1 {
		return "1 " + noun + " " + one
	}
	return count(n, noun) + " " + many
}

// size writes a number of bytes for people.
func size(bytes int64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d B", bytes)
	}
	value, exp := float64(bytes)/unit, 0
	for value >= unit && exp < 4 {
		value, exp = value/unit, exp+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[exp])
}

// span writes a duration for people, to the second.
func span(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// moment writes a time for people; a dash for none.
func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// money writes the cost of usage, or nothing where it is not known.
func money(u team.Usage) string {
	if u.CostUSD == 0 {
		return ""
	}
	return fmt.Sprintf(", %s USD", u.CostUSD)
}

// printable makes text that came from an agent one line that cannot move a
// terminal's cursor or change its state.
func printable(text string) string { return team.Printable(text) }

// clip is text as one line of at most width characters.
func clip(text string, width int) string {
	text = printable(text)
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// dash is a dash where there is no text.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// pageWidth is the width, in characters, that text for people is wrapped to. Only
// commands, which are to be copied, and words that are longer go beyond.
const pageWidth = 80

// wrap breaks text into lines of at most width characters, at spaces. A word that is
// longer has a line for itself.
func wrap(text string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(printable(text)) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
