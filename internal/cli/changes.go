package cli

import (
	"fmt"

	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// changes says, a line each, what has happened to a session between two looks at
// it, in the order of its phases. The first look is compared with nothing. passes
// has the pass of assignments and, without a persona, of phases.
func changes(p terminal.Palette, before, now team.Status, passes map[team.AssignmentID]int) []string {
	var lines []string
	if before.Session == "" {
		lines = append(lines, fmt.Sprintf("session %s of team %s: %s", now.Session, terminal.Dash(now.Team), p.State(now.Status)))
	}
	for _, phase := range now.Phases {
		lines = append(lines, phaseChanges(p, phaseOf(before, phase.Name), phase, now.Usage, passes)...)
	}
	lines = append(lines, requestChanges(p, before, now)...)
	if before.Session != "" && before.Status != now.Status {
		lines = append(lines, fmt.Sprintf("session %s: %s", now.Session, p.State(now.Status)))
	}
	if now.Status == team.WaitingForBreaker && before.Reason != now.Reason {
		lines = append(lines, team.Printable(now.Reason))
	}
	return lines
}

// requestChanges says what a session has begun to wait for a person with, which
// tickets were made for it, and what it does not wait with any more.
func requestChanges(p terminal.Palette, before, now team.Status) []string {
	var lines []string
	open := map[string]team.HelpRequest{}
	for _, h := range before.Help {
		open[h.ID] = h
	}
	for _, h := range now.Help {
		old, known := open[h.ID]
		delete(open, h.ID)
		if !known && !now.Status.Closed() {
			lines = append(lines, fmt.Sprintf("%s: %s: %s", subject(h), p.Paint(terminal.Red, h.Need()), terminal.Clip(matter(h), 200)))
		}
		if t := ticketText(h.Ticket); t != "" && t != ticketText(old.Ticket) {
			lines = append(lines, fmt.Sprintf("%s: %s", subject(h), t))
		}
	}
	for _, h := range before.Help {
		if _, gone := open[h.ID]; gone && !now.Status.Closed() {
			lines = append(lines, fmt.Sprintf("%s: goes on", subject(h)))
		}
	}
	return lines
}

// phaseOf is a phase as it was; pending if it was not known.
func phaseOf(s team.Status, name string) team.PhaseStatus {
	for _, p := range s.Phases {
		if p.Name == name {
			return p
		}
	}
	return team.PhaseStatus{Name: name, Status: team.Pending}
}

func phaseChanges(p terminal.Palette, before, now team.PhaseStatus, usage team.Usage, passes map[team.AssignmentID]int) []string {
	var lines []string
	again := passText(passes[team.AssignmentID{Phase: now.Name}])
	if before.Status == team.Pending && now.Status != team.Pending {
		lines = append(lines, fmt.Sprintf("%s%s: started", p.Paint(terminal.Bold, now.Name), again))
	}
	for _, a := range now.Assignments {
		old := team.AssignmentStatus{Persona: a.Persona, Status: team.Pending}
		for _, b := range before.Assignments {
			if b.Persona == a.Persona {
				old = b
			}
		}
		id := team.AssignmentID{Phase: now.Name, Persona: a.Persona}
		for _, line := range assignmentChanges(p, old, a) {
			lines = append(lines, fmt.Sprintf("%s%s: %s", id, passText(passes[id]), line))
		}
	}
	if before.Status == now.Status {
		return lines
	}
	switch {
	case now.Status.Done():
		lines = append(lines, fmt.Sprintf("%s%s: %s, %s tokens%s so far", p.Paint(terminal.Bold, now.Name), again, p.State(now.Status), terminal.Number(usage.Tokens()), terminal.Money(usage)))
	case now.Status != team.Running && now.Status != team.Pending:
		lines = append(lines, fmt.Sprintf("%s%s: %s", p.Paint(terminal.Bold, now.Name), again, p.State(now.Status)))
	}
	return lines
}

// passText says which pass it is, where it is not the first.
func passText(pass int) string {
	if pass <= 1 {
		return ""
	}
	return fmt.Sprintf(" (pass %d)", pass)
}

func assignmentChanges(p terminal.Palette, before, now team.AssignmentStatus) []string {
	var lines []string
	if now.Rounds > before.Rounds && now.Rounds > 1 {
		lines = append(lines, fmt.Sprintf("round %d", now.Rounds))
	}
	for i := len(before.Failures); i < len(now.Failures); i++ {
		f := now.Failures[i]
		lines = append(lines, fmt.Sprintf("attempt %d failed: %s: %s", i+1, p.Paint(terminal.Red, string(f.Category)), terminal.Clip(f.Message, 200)))
	}
	if lost := now.LostWorkers - before.LostWorkers; lost > 0 {
		lines = append(lines, fmt.Sprintf("%s lost; the work goes on, and no attempt is used up", team.Count(lost, "worker")))
	}
	if now.Status == team.Waiting && before.Status != team.Waiting && now.Progress == "" {
		lines = append(lines, "waits for its next round")
	}
	if now.Progress != "" && now.Progress != before.Progress {
		lines = append(lines, p.Paint(terminal.Dim, terminal.Clip(now.Progress, 100)))
	}
	if now.Status.Done() && !before.Status.Done() {
		line := p.State(now.Status)
		if now.Summary != "" {
			line += ": " + terminal.Clip(now.Summary, 120)
		}
		lines = append(lines, line)
	}
	return lines
}
