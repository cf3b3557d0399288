package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// messageOf is a request's message.
func messageOf(h session.Request) string {
	if h.Category == "" {
		return safetext.Line(h.Message)
	}
	return string(h.Category) + ": " + safetext.Line(h.Message)
}

// subjects are whose work so many requests are about.
func subjects(h session.Request, n int) string {
	if n > 1 {
		return fmt.Sprintf("%d assignments", n)
	}
	return h.Subject()
}

// firstCommand is the command that answers a request; empty: none is known, or needed.
func (a *app) firstCommand(sessionID string, h session.Request, open []session.Request) string {
	if all := h.Commands(sessionID, open); len(all) > 0 && !h.Kind.NoticeOnly() {
		return a.commandLine(all[0].Line)
	}
	return ""
}

// waitsFor lists open requests, a line each.
func waitsFor(open []session.Request) string {
	var b strings.Builder
	for _, e := range control.EntriesOf(session.Status{Help: open}) {
		if h, n := e.Request, 1+len(e.Also); n > 1 {
			fmt.Fprintf(&b, "\n  %s wait for a larger budget: %s", subjects(h, n), h.Command)
		} else {
			fmt.Fprintf(&b, "\n  %s  %s of %s: %s", h.ID, h.Kind, h.Subject(), safetext.Clip(messageOf(h), 120))
		}
	}
	return b.String()
}

// requestLines describes the requests of an entry. Its attempts are omitted if they are
// printed elsewhere. For a session that has ended it describes the outcome, without
// the commands.
func (a *app) requestLines(s session.Status, e control.InboxEntry, attempts bool) []string {
	h, n := e.Request, 1+len(e.Also)
	need := h.Need()
	if n > 1 {
		need = "need a larger budget"
	}
	title := fmt.Sprintf("%s %s: %s", subjects(h, n), a.palette.Paint(terminal.Red, need), safetext.Clip(messageOf(h), 300))
	if s.Status.Closed() && strings.HasPrefix(s.Reason, h.Subject()+" ") {
		title = safetext.Line(s.Reason) // the reason names who has ended the session, or that the wait has expired
	}
	lines := []string{title}
	add := func(format string, args ...any) {
		for i, line := range terminal.Wrap(fmt.Sprintf(format, args...), terminal.PageWidth-4) {
			lines = append(lines, "  "+strings.Repeat("  ", min(i, 1))+line)
		}
	}
	if !h.Since.IsZero() && (len(h.Actions) > 0 || !s.Status.Closed()) { // otherwise there was no request
		add("%s", a.openedAt(h, s.Status.Closed()))
	}
	if attempts {
		for _, r := range groupFailures(h.Attempts) {
			if len(h.Attempts) == 1 && string(r.Category)+": "+safetext.Line(r.Message) == messageOf(h) {
				break // the title has it already
			}
			add("attempt %s: %s: %s", r.numbers(), r.Category, safetext.Clip(r.Message, 300))
		}
	}
	all := h.Commands(s.Session, s.Help)
	if s.Status.Closed() {
		all = nil
	}
	if h.Suggestion != "" {
		add("%s", safetext.Line(h.Suggestion))
	}
	if t := ticketText(h.Ticket); t != "" {
		add("%s", t)
	}
	if len(all) == 0 {
		return lines
	}
	heading := "  answer with:"
	if h.Kind.NoticeOnly() {
		heading = "  no answer is needed; possible:"
	}
	return append(append(lines, heading), a.commandLines(all)...)
}

// commandLines lists commands with their effects; these are on the next line, where a line
// would be too long for a page. Commands are never broken.
func (a *app) commandLines(all []session.Command) []string {
	command, does := 0, 0
	for _, w := range all {
		command = max(command, utf8.RuneCountInString(a.commandLine(w.Line)))
		does = max(does, utf8.RuneCountInString(w.Does))
	}
	var lines []string
	for _, w := range all {
		if 4+command+2+does <= terminal.PageWidth {
			lines = append(lines, fmt.Sprintf("    %-*s  %s", command, a.commandLine(w.Line), a.palette.Paint(terminal.Dim, w.Does)))
			continue
		}
		lines = append(lines, "    "+a.commandLine(w.Line), "      "+a.palette.Paint(terminal.Dim, w.Does))
	}
	return lines
}

// failedRow is a row of failed attempts that have failed in the same way.
type failedRow struct {
	session.AttemptFailure
	first, last int // their numbers
}

// groupFailures groups consecutive failed attempts with equal messages.
func groupFailures(failures []session.AttemptFailure) []failedRow {
	var rows []failedRow
	for i, f := range failures {
		if n := len(rows); n > 0 && rows[n-1].AttemptFailure == f {
			rows[n-1].last = i + 1
			continue
		}
		rows = append(rows, failedRow{f, i + 1, i + 1})
	}
	return rows
}

// numbers are those of the row's attempts, like 3 or 1-3.
func (r failedRow) numbers() string {
	if r.first == r.last {
		return strconv.Itoa(r.first)
	}
	return fmt.Sprintf("%d-%d", r.first, r.last)
}

// openedAt says since when a request is open, or when a closed one
// was opened.
func (a *app) openedAt(h session.Request, over bool) string {
	since := fmt.Sprintf("waiting since %s (%s)", terminal.Moment(&h.Since), terminal.Age(a.now().Sub(h.Since)))
	switch {
	case over:
		since = "asked " + terminal.Moment(&h.Since)
	case !h.Until.IsZero():
		since += ", until " + terminal.Moment(&h.Until)
	}
	if h.ID == "" {
		return since
	}
	return "request " + h.ID + " " + since // the id first, so that a line break cannot separate them
}

// ticketText describes the ticket of a request, or why there is none yet; empty if no ticket is
// created.
func ticketText(t *session.Ticket) string {
	if t == nil || *t == (session.Ticket{}) {
		return ""
	}
	text := "no ticket yet"
	if t.Key != "" {
		text = "ticket " + safetext.Line(t.Key)
	}
	if t.URL != "" {
		text += ", " + safetext.Line(t.URL)
	}
	if t.Occurrences > 1 {
		text += fmt.Sprintf(", occurrence %d of this failure", t.Occurrences)
	}
	if t.Trouble != "" {
		text += ": " + safetext.Line(t.Trouble)
	}
	return text
}

// selector selects one of a session's open requests, and its answer.
type selector struct {
	// request is an id; of a phase, or PHASE/PERSONA. Empty: any.
	request, of string
	action      session.Action
}

func (s selector) matches(h session.Request) bool {
	return (s.request == "" || s.request == h.ID) && (s.of == "" || s.of == h.Phase || s.of == h.Subject())
}

// choose finds the one open request that a selector matches. A request that is no longer open is a
// failure, because another person may have answered; one that never existed is a usage error.
func (s selector) choose(sessionID string, open []session.Request) (session.Request, error) {
	var none session.Request
	if len(open) == 0 {
		return none, failf("session %s has no open request; `maestro status %s` shows its state", sessionID, sessionID)
	}
	named := slices.DeleteFunc(slices.Clone(open), func(h session.Request) bool { return !s.matches(h) })
	if len(named) == 0 {
		refuse := usagef
		if s.request != "" {
			refuse = failf
		}
		return none, refuse("request %[2]s is not open in session %[1]s; open requests:%[3]s", sessionID, cmp.Or(s.request, s.of),
			waitsFor(open))
	}
	taking := slices.DeleteFunc(slices.Clone(named), func(h session.Request) bool { return !h.Takes(s.action) })
	switch len(taking) {
	case 0:
		return none, usagef("session %s has no open request that can be answered with %s; open requests:%s%s", sessionID, s.action,
			waitsFor(named), answerCommands(sessionID, named[0], open))
	case 1:
		return taking[0], nil
	}
	how := "choose one with --request ID or --for PHASE/PERSONA"
	if s.action.OfPhase() {
		how = "give PHASE"
	}
	return none, usagef("session %s has %d open requests that can be answered with %s; %s:%s", sessionID, len(taking), s.action, how,
		waitsFor(taking))
}

// answerCommands names the commands that answer a request.
func answerCommands(sessionID string, h session.Request, open []session.Request) string {
	var all []string
	for _, w := range h.Commands(sessionID, open) {
		all = append(all, "`maestro "+w.Line+"`")
	}
	if len(all) == 0 {
		return ""
	}
	return "\nrun " + strings.Join(all, ", or ")
}

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
func (a *app) reportFailure(s session.Status) {
	if s.Reason != "" && len(s.Help) == 0 {
		a.printErr("%s: %s", s.Session, safetext.Line(s.Reason))
	}
	for _, e := range control.EntriesOf(s) {
		a.printErr("%s", strings.Join(a.requestLines(s, e, true), "\n"))
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
		printed := "its output: " + a.commandLine("logs "+s.Session+" "+s.Help[0].Subject())
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
