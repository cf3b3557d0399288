package tui

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// Widths of terminals from which on there is room for more.
const (
	// wideFrom: what agents say is beside their rows, and not below.
	wideFrom = 120
	// figuresFrom: tokens and money have columns.
	figuresFrom = 72
	// tokensFrom: tokens have one.
	tokensFrom = 56
)

// columns are the widths of a row's columns, in cells; zero: it has no such.
type columns struct{ name, state, time, tokens, cost, word int }

// gap is between columns.
const gap = 2

func columnsFor(width int, longest int) columns {
	c := columns{state: 22, time: 7, tokens: 6, cost: 9}
	switch {
	case width < tokensFrom:
		c = columns{state: 13, time: 7}
	case width < figuresFrom:
		c = columns{state: 14, time: 7, tokens: 6}
	case width >= wideFrom:
		c.state = 36
	}
	used := 2 // margins
	for _, w := range []int{c.state, c.time, c.tokens, c.cost} {
		if w > 0 {
			used += w + gap
		}
	}
	c.name = max(width-used, 4)
	if width >= wideFrom {
		c.name = min(c.name, max(longest, 24))
		c.word = width - used - c.name - gap
	}
	return c
}

// row is a line of the drawing's body. Rows of an assignment name it.
type row struct {
	text string
	of   spec.AssignmentID
}

// painter draws the rows of a session.
type painter struct {
	theme
	columns
	width    int
	now      time.Time
	selected spec.AssignmentID
	rows     []row
}

// body draws the phases and their assignments.
func (p *painter) body(s Session) []row {
	all := layers(s.Phases)
	p.columns = columnsFor(p.width, longestName(s.Phases)+8)
	for depth, layer := range all {
		for i, phase := range layer {
			r := rails(i, len(layer), depth == 0, depth == len(all)-1)
			var before []Phase
			if depth > 0 {
				before = all[depth-1]
			}
			p.phase(r, phase, after(phase, before))
			for _, a := range phase.Assignments {
				p.assignment(r, phase, a)
			}
		}
	}
	return p.rows
}

func longestName(phases []Phase) int {
	longest := 0
	for _, p := range phases {
		longest = max(longest, len(p.Name))
		for _, a := range p.Assignments {
			longest = max(longest, len(a.Persona))
		}
	}
	return longest
}

// phase draws the row of a phase: its name, a bar with a part for each assignment,
// and where there are several, what they have cost together.
func (p *painter) phase(r rail, phase Phase, when string) {
	l := lookOf(phase.State)
	name := p.Paint(faint, r.head) + p.Paint(l.colour, l.sign) + " " + p.Paint(strong, safe(phase.Name))
	var states []session.State
	var usage cost.Usage
	done := 0
	for _, a := range phase.Assignments {
		states = append(states, a.State)
		usage = usage.Add(a.Usage)
		if a.State.Done() {
			done++
		}
	}
	spill := min(max(lipgloss.Width(name)-p.name, 0), 8) // a long name shortens the bar
	bar := p.bar(states, 10-spill)
	if len(states) > 1 && spill == 0 {
		bar += fmt.Sprintf(" %d/%d", done, len(states))
	} else if len(states) <= 1 {
		usage = cost.Usage{}
	}
	var words []string
	if phase.Delivers != "" {
		words = append(words, phase.Delivers)
	}
	switch {
	case phase.Left && phase.State == session.Pending:
		words = append(words, "not selected")
	case phase.State == session.AwaitingApproval:
		words = append(words, "waiting for approval")
	case phase.State == session.Running && done == len(states) && done > 1:
		words = append(words, "merging and checking its work")
	}
	if phase.SentBack && phase.State == session.Running {
		words = append(words, "running again: work was sent back")
	}
	if when != "" {
		words = append(words, when)
	}
	word := safe(strings.Join(words, "; "))
	p.line(row{}, fit(name, p.name+spill)+strings.Repeat(" ", gap)+fit(bar, p.state-spill), 0, usage, p.Paint(faint, word))
	if p.word == 0 && word != "" {
		p.below(row{}, r, 2, p.Paint(faint, word))
	}
}

// assignment draws the row of an assignment and, where there is no room beside it,
// what its agent says below.
func (p *painter) assignment(r rail, phase Phase, a Assignment) {
	of := row{of: spec.AssignmentID{Phase: phase.Name, Persona: a.Persona}}
	l := lookOf(a.State)
	mark, name := "  ", safe(a.Persona)
	if of.of == p.selected {
		mark, name = p.Paint(active, "▸ "), p.Paint(strong, name)
	}
	state := p.Paint(l.colour, l.word) + p.tried(a, l.word)
	word := p.describe(a)
	body := r.body
	if p.width < tokensFrom {
		body = r.slim()
	}
	name = p.Paint(faint, body) + mark + p.Paint(l.colour, l.sign) + " " + name
	p.line(of, fit(name, p.name)+strings.Repeat(" ", gap)+fit(state, p.state), a.Worked, a.Usage, word)
	if p.word == 0 && word != "" && !a.State.Done() {
		p.below(of, r, 4, word)
	}
}

// tried names the pass, round and attempt that are not the first, shortly where there is little room.
func (p *painter) tried(a Assignment, word string) string {
	var long, short []string
	for _, c := range []struct {
		name string
		n    int
	}{{"pass", a.Pass}, {"round", a.Round}, {"attempt", a.Attempt}} {
		if c.n > 1 || c.n == 1 && c.name == "attempt" && len(long) == 0 && a.State == session.Running {
			long, short = append(long, fmt.Sprintf("%s %d", c.name, c.n)), append(short, fmt.Sprintf("%s%d", c.name[:1], c.n))
		}
	}
	brief := strings.Join(short, " ")
	for _, text := range []string{", " + strings.Join(long, ", "), ", " + brief, " " + brief} {
		if len(long) > 0 && lipgloss.Width(word+text) <= p.state {
			return text
		}
	}
	return ""
}

// describe describes an assignment in a line: what it waits for, what its
// agent is doing or has done, or how its last attempt failed.
func (p *painter) describe(a Assignment) string {
	var b strings.Builder
	if a.Agent != "" {
		fmt.Fprintf(&b, "(fallback %s) ", safe(a.Agent))
	}
	if a.LostWorkers > 0 {
		fmt.Fprintf(&b, "(%s lost) ", textfmt.Count(a.LostWorkers, "worker"))
	}
	prefix := p.Paint(faint, b.String())
	switch {
	case a.Awaits != nil:
		return prefix + p.Paint(slow, "breaker "+safe(a.Awaits.Breaker)+" is open, "+timeLeft(a.Awaits.Until, p.now))
	case a.State.Done():
		return prefix + p.Paint(faint, safe(a.Summary))
	case a.State == session.HelpIsNeeded, a.State == session.Failed, a.Progress == "":
		if n := len(a.Failures); n > 0 {
			f := a.Failures[n-1]
			return prefix + p.Paint(bad, fmt.Sprintf("attempt failed: %s: %s", safe(string(f.Category)), safe(f.Message)))
		}
	}
	return prefix + p.Paint(faint, safe(a.Progress))
}

// timeLeft is the remaining time until a moment.
func timeLeft(until *time.Time, now time.Time) string {
	switch {
	case until == nil:
		return "until it is reset"
	case !until.After(now):
		return "probe due"
	}
	return terminal.Age(until.Sub(now)+time.Second-1) + " left"
}

// line adds a row: what it is and how it stands, and the figures.
func (p *painter) line(of row, stands string, worked time.Duration, usage cost.Usage, word string) {
	cells := []string{stands}
	duration := ""
	if worked > 0 {
		duration = terminal.Age(worked)
	}
	cells = append(cells, alignRight(duration, p.time))
	if p.tokens > 0 {
		cells = append(cells, alignRight(tokens(usage.Tokens()), p.tokens))
	}
	if p.cost > 0 {
		cells = append(cells, alignRight(dollars(usage.CostUSD), p.cost))
	}
	if p.word > 0 {
		cells = append(cells, clip(word, p.word))
	}
	of.text = strings.TrimRight(" "+strings.Join(cells, strings.Repeat(" ", gap)), " ")
	p.rows = append(p.rows, of)
}

// below adds a row with more about the one before it.
func (p *painter) below(of row, r rail, indent int, text string) {
	body := r.body
	if p.width < tokensFrom {
		body = r.slim()
	}
	lead := " " + p.Paint(faint, body) + strings.Repeat(" ", indent)
	of.text = clip(lead+text, p.width-1)
	p.rows = append(p.rows, of)
}
