package tui

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// Picture is the drawing of a session.
type Picture struct {
	Session Session
	// Width is the terminal's, in cells.
	Width int
	// Height bounds the lines; zero: as many as it takes.
	Height int
	Now    time.Time
	// Colours switches colours on.
	Colours bool
	// Selected is marked, and stays in sight; the zero value: nothing is.
	Selected spec.AssignmentID
	// Trouble is a line on why the drawing is not up to date; empty: it is.
	Trouble string
	// Prompt are lines above the footer, painted already.
	Prompt []string
	// Footer is the last line.
	Footer string
}

// Lines draws the session: its head, the phases in the order in which they can run,
// and what a person should know or do. No line is wider than the terminal. Where
// Height is too little, the phases scroll to the selected assignment.
func (p Picture) Lines() []string {
	t := theme{terminal.Palette{On: p.Colours}}
	cramped := p.Height > 0 && p.Height < 16
	head := p.head(t, cramped)
	painter := &painter{theme: t, width: p.Width, now: p.Now, selected: p.Selected}
	rows := painter.body(p.Session)
	people := p.people(t, false)
	if p.Height > 0 {
		room := p.Height - len(head) - len(p.Prompt)
		if p.Footer != "" {
			room--
		}
		most := max(min(room-min(len(rows), 6), room*2/3), 1)
		if len(people) > most {
			people = p.people(t, true)
		}
		people = people[:min(len(people), most)]
		rows = window(t, rows, max(room-len(people), 1), p.Selected)
	}
	lines := head
	for _, r := range rows {
		lines = append(lines, r.text)
	}
	lines = append(lines, people...)
	if p.Footer != "" {
		for len(lines) < p.Height-1-len(p.Prompt) {
			lines = append(lines, "")
		}
		lines = append(lines[:min(len(lines), max(p.Height-1-len(p.Prompt), 0))], p.Prompt...)
		lines = append(lines, t.Paint(faint, " "+clip(p.Footer, p.Width-2)))
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(clip(line, p.Width), " ")
	}
	if p.Height > 0 {
		lines = lines[:min(len(lines), p.Height)]
	}
	return lines
}

// head shows the session, its state, and its cost.
func (p Picture) head(t theme, cramped bool) []string {
	s := p.Session
	l := lookOf(s.State)
	state, took := l.sign+" "+l.word, terminal.Age(s.elapsed(p.Now))
	room := p.Width - lipgloss.Width(state) - len(took) - 6 // of which the id takes what it needs
	title := " " + t.Paint(strong, clip(safe(s.ID), max(room, 6))) + "  " + t.Paint(l.colour, state)
	if s.Run > 1 && p.Width >= tokensFrom {
		title += t.Paint(faint, fmt.Sprintf(", run %d", s.Run))
	}
	lines := []string{justify(title, took, p.Width-1)}
	if !cramped {
		about := "team " + s.Team
		if s.Requirement != "" {
			about += " · " + s.Requirement
		}
		lines = append(lines, " "+t.Paint(faint, clip(safe(about), p.Width-2)))
	}
	lines = append(lines, p.totals(t))
	if !cramped {
		lines = append(lines, p.headings(t))
	}
	return lines
}

// totals draws the session's bar and what it has cost, against its budget.
func (p Picture) totals(t theme) string {
	s := p.Session
	var states []session.State
	done := 0
	for _, layer := range layers(s.Phases) {
		for _, phase := range layer {
			if phase.Left && !phase.State.Done() {
				continue
			}
			states = append(states, phase.State)
			if phase.State.Done() {
				done++
			}
		}
	}
	var figures []string
	if len(states) > 0 {
		figures = append(figures, fmt.Sprintf("%d/%d phases", done, len(states)))
	}
	if n := s.Usage.Tokens(); n > 0 {
		figures = append(figures, terminal.Short(n)+" tokens"+share(s.Spent.Tokens, s.Limit.Tokens, terminal.Short(s.Limit.Tokens)))
	}
	if u := s.Usage.CostUSD; u > 0 {
		figures = append(figures, dollars(u)+share(int64(s.Spent.USD), int64(s.Limit.USD), dollars(s.Limit.USD)))
	}
	for len(figures) > 1 && lipgloss.Width(strings.Join(figures, "  "))+12 > p.Width {
		figures = figures[:len(figures)-1]
	}
	text := strings.Join(figures, "  ")
	return " " + t.bar(states, min(p.Width-lipgloss.Width(text)-4, 60)) + "  " + text
}

// share says how much of a limit is spent; empty task queue.
func share(spent, limit int64, of string) string {
	if limit <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%d%% of %s)", int64(float64(spent)/float64(limit)*100), of)
}

// headings names the columns of figures.
func (p Picture) headings(t theme) string {
	c := columnsFor(p.Width, longestName(p.Session.Phases)+8)
	cells := []string{strings.Repeat(" ", c.name), strings.Repeat(" ", c.state), alignRight("time", c.time)}
	if c.tokens > 0 {
		cells = append(cells, alignRight("tokens", c.tokens))
	}
	if c.cost > 0 {
		cells = append(cells, alignRight("cost", c.cost))
	}
	return t.Paint(faint, " "+strings.Join(cells, strings.Repeat(" ", gap)))
}

// people draws what a person should know or do: trouble, open requests with
// the commands to type, and notes. In brief it leaves out what is not needed to continue.
func (p Picture) people(t theme, brief bool) []string {
	s := p.Session
	var lines []string
	add := func(m terminal.Colour, sign, text string) {
		wrapped := fold(safe(text), p.Width-4)
		if brief {
			wrapped = []string{clip(safe(text), p.Width-4)}
		}
		for i, line := range wrapped {
			if i > 0 {
				sign = " "
			}
			lines = append(lines, " "+t.Paint(m, sign+" "+line))
		}
	}
	if p.Trouble != "" {
		add(bad, "!", p.Trouble)
	}
	for _, r := range s.Requests {
		title := r.Title
		if !r.Until.IsZero() && !s.State.Closed() {
			title += " (gives up in " + terminal.Age(r.Until.Sub(p.Now)) + ")"
		}
		add(bad, "!", title)
		lines = append(lines, p.commands(t, r.Commands, brief)...)
	}
	waits := p.breakers()
	for _, w := range waits {
		add(slow, "◌", w.Title)
		lines = append(lines, p.commands(t, w.Commands, brief)...)
	}
	if s.Reason != "" && len(s.Requests)+len(waits) == 0 {
		add(lookOf(s.State).colour, lookOf(s.State).sign, s.Reason)
	}
	for _, note := range s.Notes {
		if note != s.Reason {
			add(slow, "·", note)
		}
	}
	if len(lines) > 0 && !brief {
		lines = append([]string{""}, lines...)
	}
	return lines
}

// breakers lists the breakers that assignments wait for, with the remaining time.
func (p Picture) breakers() []Request {
	var all []Request
	seen := map[string]bool{}
	for _, phase := range p.Session.Phases {
		for _, a := range phase.Assignments {
			if a.Awaits == nil || seen[a.Awaits.Breaker] {
				continue
			}
			seen[a.Awaits.Breaker] = true
			all = append(all, Request{
				Title: fmt.Sprintf("breaker %s is open, %s: %s", a.Awaits.Breaker, timeLeft(a.Awaits.Until, p.Now), a.Awaits.Why),
				Commands: []Command{
					{"maestro breaker show " + a.Awaits.Breaker, "shows details"},
					{"maestro breaker reset " + a.Awaits.Breaker, "closes it now"},
				},
			})
		}
	}
	return all
}

// commands draws the commands to type, whole: a command that is too long continues in
// the next line.
func (p Picture) commands(t theme, all []Command, brief bool) []string {
	if brief && len(all) > 1 {
		all = all[:1]
	}
	longest := 0
	for _, c := range all {
		longest = max(longest, lipgloss.Width(safe(c.Text)))
	}
	var lines []string
	for _, c := range all {
		text := safe(c.Text)
		room := p.Width - 6 - longest - gap
		if room >= 16 {
			lines = append(lines, "   "+t.Paint(strong, fit(text, longest))+"  "+t.Paint(faint, firstClause(safe(c.Does), room)))
			continue
		}
		for i, line := range fold(text, p.Width-6) {
			lead := "   "
			if i > 0 {
				lead = "     "
			}
			lines = append(lines, lead+t.Paint(strong, line))
		}
	}
	return lines
}

// window cuts rows to a height, around those of the selected assignment, and says
// how many are out of sight.
func window(t theme, rows []row, height int, selected spec.AssignmentID) []row {
	if len(rows) <= height {
		return rows
	}
	first, last := 0, 0
	for i, r := range rows {
		if r.of == selected && selected != (spec.AssignmentID{}) {
			if rows[first].of != selected {
				first = i
			}
			last = i
		}
	}
	from := min(max((first+last)/2-height/2, 0), len(rows)-height)
	to := from + height
	out := append([]row(nil), rows[from:to]...)
	mark := func(sign string, n int) row {
		return row{text: " " + t.Paint(faint, fmt.Sprintf("%s %d more", sign, n))}
	}
	if from > 0 && height > 2 {
		out[0] = mark("↑", from+1)
	}
	if to < len(rows) && height > 2 {
		out[len(out)-1] = mark("↓", len(rows)-to+1)
	}
	return out
}
