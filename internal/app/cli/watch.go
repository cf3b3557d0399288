package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// watchEvery is the polling interval of a watched session.
const watchEvery = time.Second

// lostAfter bounds one poll of a watched session: a server that does not answer
// counts as lost.
const lostAfter = 12 * time.Second

// observer receives the states of a watched session.
type observer interface {
	// update passes the session's current state. An error counts like one of the look at the session.
	update(ctx context.Context, v sessionstatus.Session) error
	// disconnected reports a lost connection; the next update means that it is back.
	disconnected(why string)
}

func newWatch(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch SESSION",
		Short: "Follow a session until it ends, and exit with its outcome",
		Long: "Follow a session until it ends or waits for a person. On a terminal, show a live view of its phases, with keys for " +
			"answers, until it ends or you quit; otherwise, or with --plain, print a line for each change. " +
			"The exit code is the session's outcome: " +
			"0 completed, 1 failed or cancelled, 3 waiting for help or approval. Ctrl-C ends this command, not the session.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := spec.CheckSession(args[0]); err != nil {
				return usagef("%w", err)
			}
			p, err := a.served(a.shownBase)(cmd.Context())
			if err != nil {
				return err
			}
			defer p.close()
			if p.base == nil || p.base.Temporal() != nil {
				return a.follow(cmd.Context(), p.lookout(args[0], a.now))
			}
			return &codeError{exitUnreachable, a.showStatus(cmd.Context(), p, args[0])} // Temporal may know more
		},
	}
	a.addPlainFlag(cmd.Flags())
	return a.addServerFlags(a.addStateDirFlag(a.addTemporalFlags(cmd)))
}

// addPlainFlag gives a command that follows a session the flag for plain lines.
func (a *app) addPlainFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&a.plain, "plain", false, "print a line for each change, also on a terminal")
}

// follow shows a session until it ends or waits for a person, and returns its outcome as an
// exit code.
func (a *app) follow(ctx context.Context, w *lookout) error {
	v, err := a.show(ctx, w)
	if errors.Is(err, context.Canceled) {
		a.printErr("session %s continues; watch it again: %s", w.session, a.commandLine("watch "+w.session))
		return exit(exitInterrupted)
	}
	if err != nil {
		return a.explain(err)
	}
	code := outcomeCode(v.Status.Status)
	if code != exitDone {
		a.reportFailure(v.Status)
	} else {
		a.printOutcome(ctx, w, v)
	}
	return exit(code)
}

// How much the outcome of a session lists.
const (
	maxToldFiles     = 12
	maxToldSummaries = 6
)

// printOutcome says what a completed session has changed, who says what of it, which checks it has passed, what it has cost, and
// how to go on.
func (a *app) printOutcome(ctx context.Context, w *lookout, v sessionstatus.Session) {
	line := func(name, format string, args ...any) { a.printErr("%-12s"+format, append([]any{name}, args...)...) }
	diff, err := invoke(ctx, w.backend, httpapi.DiffSession, control.DiffInput{Session: w.session, Stat: true})
	if err == nil {
		line("changes", "%s", statOf(diff.Files))
	}
	for _, f := range diff.Files[:min(len(diff.Files), maxToldFiles)] {
		line("", "%-8s %s", f.Change, safetext.Name(f.Path))
	}
	if more := len(diff.Files) - maxToldFiles; more > 0 {
		line("", "and %d more", more)
	}
	told := 0
	for _, p := range slices.Backward(v.Phases) { // the last word first
		for _, as := range p.Assignments {
			if as.Summary != "" && told < maxToldSummaries {
				line(as.Persona, "%s", safetext.Line(as.Summary))
				told++
			}
		}
	}
	if len(v.Checks) > 0 {
		line("checks", "passed: %s", strings.Join(v.Checks, ", "))
	} else {
		line("checks", "none ran")
	}
	line("cost", "%s", terminal.Amount(v.Usage.Amount()))
	if len(diff.Files) > 0 {
		line("next", "`%s` brings the changes here; `%s` shows them", a.commandLine("apply "+w.session),
			a.commandLine("artifacts diff "+w.session))
	}
}

// show shows a session until it ends or waits for a person: in the live view if the terminal
// allows it, otherwise with a line for each change. The error is context.Canceled if ctx ended
// or the user quit before.
func (a *app) show(ctx context.Context, w *lookout) (sessionstatus.Session, error) {
	if terminal, ok := a.viewTerminal(); ok {
		return a.runView(ctx, w, terminal)
	}
	return track(ctx, w, newLineObserver(a.console, w), hasOutcome)
}

// track sends a session's states to an observer until over accepts one, or ctx ends, and
// returns the last one. It waits for a lost connection.
func track(ctx context.Context, w *lookout, to observer, over func(session.State) bool) (sessionstatus.Session, error) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last sessionstatus.Session
	lost, known, unexplained := false, false, false
	for {
		v, err := w.look(ctx)
		if err == nil {
			err = to.update(ctx, v)
		}
		switch {
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err == nil:
			lost, known = false, true
			last = v
			if over(v.Status.Status) {
				// Without a document and a worker, only the next look may say what it waits for.
				if v.Status.Status.Closed() || len(v.Help) > 0 || unexplained {
					return v, nil
				}
				unexplained = true
			}
		case !lostConnection(err) && (!known || control.ProblemOf(err).Reason != control.UnknownSession):
			return last, err
		case w.base == nil && !known && !w.exists: // the address may be wrong; Temporal was reached before
			return last, err
		case !lost:
			lost = true
			to.disconnected(fmt.Sprintf("lost the connection to %s; retrying (the session is not affected)", w.whom()))
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-ticker.C:
		}
	}
}

// lineObserver prints a line for each event, once.
type lineObserver struct {
	*console
	lookout        *lookout
	printed        map[string]bool // by the keys of events
	before         session.Status  // of the last update
	notes          []string        // of the last update
	connectionLost bool
}

func newLineObserver(out *console, w *lookout) *lineObserver {
	if out.output == outputJSON { // standard output has the result only
		progress := *out
		progress.stdout = out.stderr
		out = &progress
	}
	return &lineObserver{console: out, lookout: w, printed: map[string]bool{}}
}

// update prints new events and notes.
func (l *lineObserver) update(_ context.Context, v sessionstatus.Session) error {
	if l.connectionLost {
		l.printErr("reconnected")
		l.connectionLost = false
	}
	first := l.before.Session == ""
	for _, e := range append(l.continued(v.Status), events{v.Status, l.palette, !first}.all()...) {
		if l.printed[e.key] {
			continue
		}
		l.printed[e.key] = true
		l.line(e.text, !first)
	}
	switch {
	case first:
		l.line(fmt.Sprintf("session %s of team %s: %s", v.Session, terminal.Dash(v.Team), l.palette.State(v.Status.Status)), true)
	case l.before.Status != v.Status.Status:
		l.line(fmt.Sprintf("session %s: %s", v.Session, l.palette.State(v.Status.Status)), true)
	}
	if v.Status.Status == session.WaitingForBreaker && l.before.Reason != v.Reason {
		l.line(safetext.Line(v.Reason), true)
	}
	notes := notesOf(v)
	for _, note := range notes {
		if !slices.Contains(l.notes, note) {
			l.printErr("%s", safetext.Line(note))
		}
	}
	l.before, l.notes = v.Status, notes
	return nil
}

// line prints a line with the time. What the first look finds happened earlier, and gets no time.
func (l *lineObserver) line(text string, timed bool) {
	at := strings.Repeat(" ", len(time.TimeOnly))
	if timed {
		at = l.palette.Paint(terminal.Dim, l.lookout.now().Local().Format(time.TimeOnly))
	}
	l.print("%s  %s", at, text)
}

// continued lists the requests that are no longer open.
func (l *lineObserver) continued(now session.Status) (all []event) {
	if now.Status.Closed() {
		return nil
	}
	for _, h := range l.before.Help {
		if !slices.ContainsFunc(now.Help, func(o session.Request) bool { return o.ID == h.ID }) {
			all = append(all, event{h.ID + " continues", h.Subject() + ": continues"})
		}
	}
	return all
}

// merging reports whether a phase's assignments are done and their work is merged and checked.
func merging(p session.PhaseStatus) bool {
	unfinished := func(as session.AssignmentStatus) bool { return !as.Status.Done() }
	return p.Status == session.Running && len(p.Assignments) > 1 && !slices.ContainsFunc(p.Assignments, unfinished)
}

func (l *lineObserver) disconnected(why string) {
	l.connectionLost = true
	l.printErr("%s", why)
}
