package cli

import (
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// outcomeCode is the exit code of a session that has ended or waits for a person.
func outcomeCode(s session.State) int {
	switch s {
	case session.Completed:
		return exitDone
	case session.HelpIsNeeded, session.AwaitingApproval:
		return exitHelp
	default:
		return exitFailed
	}
}

// hasOutcome reports whether a session has ended or waits for a person.
func hasOutcome(s session.State) bool {
	return s.Closed() || s == session.HelpIsNeeded || s == session.AwaitingApproval
}

// reportFailure prints to standard error why a session failed, or what it waits
// for: every attempt of what needs help, and what to do next.
func (g *guide) reportFailure(s session.Status) {
	if s.Reason != "" && len(s.Help) == 0 {
		g.console.printErr("%s: %s", s.Session, safetext.Line(s.Reason))
	}
	for _, h := range s.Help {
		g.console.printErr("%s", strings.Join(g.requestLines(s, h, true), "\n"))
	}
	if next := g.nextStep(s); next != "" {
		g.console.printErr("%s", next)
	}
}

// resumption is the command that resumes a session that ended without completing.
func (g *guide) resumption(sessionID string) string {
	return "resume it with the finished work restored: " + g.target.commandLine("resume "+sessionID)
}

// nextStep is what to do about a session that has not completed, besides what its
// requests say themselves.
func (g *guide) nextStep(s session.Status) string {
	goOn := g.resumption(s.Session)
	switch {
	case s.Status == session.AwaitingApproval && len(s.Help) == 0:
		return "continue: " + g.target.commandLine("resume "+s.Session)
	case len(s.Help) > 0 && len(s.Help[0].Attempts) > 0:
		printed := "its output: " + g.target.commandLine("logs "+s.Session+" "+s.Help[0].Subject())
		if s.Status.Closed() {
			return printed + "\n" + goOn
		}
		return printed
	case s.Status.Closed():
		return goOn
	case len(s.Help) > 0:
		return ""
	}
	return "more: " + g.target.commandLine("status "+s.Session)
}
