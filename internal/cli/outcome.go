package cli

import (
	"strings"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
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

// settled reports whether a session has ended or waits for a person.
func settled(s session.State) bool {
	return s.Closed() || s == session.HelpIsNeeded || s == session.AwaitingApproval
}

// reportFailure prints to standard error why a session failed, or what it waits
// for: every attempt of what needs help, and what to do next.
func (a *app) reportFailure(s session.Status) {
	if s.Reason != "" && len(s.Help) == 0 {
		a.printErr("%s: %s", s.Session, safetext.Line(s.Reason))
	}
	for _, h := range s.Help {
		a.printErr("%s", strings.Join(a.requestLines(s, h, true), "\n"))
	}
	if next := a.nextStep(s); next != "" {
		a.printErr("%s", next)
	}
}

// resumption is the command that resumes a session that ended without completing.
func (a *app) resumption(sessionID string) string {
	return "resume it with the finished work restored: " + a.commandLine("resume "+sessionID)
}

// nextStep is what to do about a session that has not completed, besides what its
// requests say themselves.
func (a *app) nextStep(s session.Status) string {
	goOn := a.resumption(s.Session)
	switch {
	case s.Status == session.AwaitingApproval && len(s.Help) == 0:
		return "continue: " + a.commandLine("resume "+s.Session)
	case len(s.Help) > 0 && len(s.Help[0].Attempts) > 0:
		printed := "its output: " + a.commandLine("logs "+s.Session+" "+subject(s.Help[0]))
		if s.Status.Closed() {
			return printed + "\n" + goOn
		}
		return printed
	case s.Status.Closed():
		return goOn
	case len(s.Help) > 0:
		return ""
	}
	return "more: " + a.commandLine("status "+s.Session)
}

// commandLine is a command with this command's connection and store flags.
func (a *app) commandLine(command string) string {
	for _, f := range []struct{ name, value string }{
		{"address", a.temporal.Address}, {"namespace", a.temporal.Namespace}, {"profile", a.temporal.Profile}, {"state-dir", a.stateDir},
	} {
		takesAddress := !strings.HasPrefix(command, "logs ") && !strings.HasPrefix(command, "artifacts ") && !strings.HasPrefix(command, "apply ")
		if f.value != "" && (takesAddress || f.name != "address") {
			command += " --" + f.name + " " + agent.ShellWord(f.value)
		}
	}
	return "maestro " + command
}
