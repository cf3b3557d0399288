package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/launch"
)

// begun prints a session that an operation has started, or its error, and follows the session if
// that is requested.
func (a *app) begun(ctx context.Context, p *plane, doc control.Started, err error, watch bool) error {
	for _, fault := range doc.Faults {
		a.printErr("damaged: %s", strings.ReplaceAll(fault, "\n", "\n  "))
	}
	err = a.explainStart(ctx, p, err)
	if doc.Session == "" || err != nil && exitCode(err) == exitUsage {
		return err
	}
	follow := a.commandLine("watch " + doc.Session)
	switch {
	case ctx.Err() != nil:
		a.printErr("the session is started and runs in the background: %s", follow)
		err = cmp.Or(err, ctx.Err())
	case err == nil && !doc.Admitted && len(doc.Continued) == 0:
		why := ""
		if v, _ := p.lookout(doc.Session, a.env.Now).look(ctx); v.Reason != "" {
			why = ": " + v.Reason
		}
		err = failf("the session is started, but no worker admitted it within %s%s; it runs as soon as one does: %s", launch.AdmissionTimeout, why, follow)
	}
	printPlan(a.console, doc.Plan)
	a.printUnchanged(doc)
	// A session that is started and not admitted yet has an id, too.
	if err := errors.Join(err, announce(a.console, doc)); err != nil || !watch || doc.Unchanged.Closed() {
		return err
	}
	w := p.lookout(doc.Session, a.env.Now)
	w.exists = true
	return a.follow(ctx, w)
}

// startServed starts or resumes a session at a server. If no id is given, one is chosen here, so
// that a repeated request does not start a second session.
func (a *app) startServed(ctx context.Context, id *string, team string, start func() (control.Started, error)) (control.Started, error) {
	chosen := *id == ""
	if chosen {
		*id = launch.NewID(team, a.env.Now())
	}
	doc, err := start()
	var failed *control.Error
	switch {
	case err == nil:
	case chosen && errors.As(err, &failed) && failed.Kind == control.Conflict && failed.Field == "session": // an earlier try started it
		return control.Started{Foreseen: control.Foreseen{Session: *id}}, nil
	case ctx.Err() != nil, lostConnection(err):
		err = &codeError{exitCode(err), fmt.Errorf("%s; the server may have started session %s: %s", a.describeError(err), *id, a.commandLine("status "+*id))}
	}
	return doc, err
}

// printUnchanged prints the state of a session that was not started again.
func (a *app) printUnchanged(doc control.Started) {
	for _, phase := range doc.Continued {
		if doc.Admitted {
			a.printErr("session %s continues after phase %s", doc.Session, phase)
		} else {
			a.printErr("no worker answered within %s; session %s continues after phase %s as soon as one does", control.AnswerTimeout, doc.Session, phase)
		}
	}
	switch {
	case doc.Unchanged == session.Completed:
		a.printErr("session %s is completed; nothing is left to run (--force PHASE runs a phase again)", doc.Session)
	case doc.Unchanged != "":
		a.printErr("session %s is already running; nothing was changed", doc.Session)
	}
}

// explainStart adds a remedy to the error of a start.
func (a *app) explainStart(ctx context.Context, p *plane, err error) error {
	failed := control.ProblemOf(err)
	var none *launch.NoCheckpointError
	var elsewhere *control.OtherStoreError
	switch {
	case errors.As(err, &none):
		return failf("%w; a session without one cannot be resumed; start a new session with `maestro run`", err)
	case errors.As(err, &elsewhere):
		return usagef("%w; give its --state-dir", elsewhere)
	case failed.Reason == control.AtWork:
		return usagef("%w: %s", err, a.commandLine("cancel "+failed.Session))
	case failed.Reason == control.Waits:
		open, _ := p.open(ctx, failed.Session)
		return a.openRequests(failed.Session, open.Requests)
	case failed.Kind == control.Conflict && failed.Field == "session":
		return usagef("%w; choose another --session, or show it with `%s`", err, a.commandLine("status "+failed.Session))
	case failed.Kind == control.Conflict && failed.Field == "run":
		return usagef("%w", err)
	}
	return a.explainIn(ctx, p, inputError(err))
}

// openRequests is the error of resuming a session that waits for answers, with the commands that
// answer.
func (a *app) openRequests(sessionID string, open []session.Request) error {
	var b strings.Builder
	for _, h := range open {
		fmt.Fprintf(&b, "\n%s %s: %s", h.Subject(), h.Need(), safetext.Clip(messageOf(h), 200))
		if answer := a.firstCommand(sessionID, h, open); answer != "" {
			fmt.Fprintf(&b, "\n  answer with: %s", answer)
		}
	}
	return usagef("session %s is running and waits for an answer, which `resume` cannot give:%s", sessionID, &b)
}

// printPlan prints what is restored and what runs, and why.
func printPlan(out *console, plan []session.PlanEntry) {
	words := map[session.PlanAction]string{session.Restore: "restores", session.RunIt: "runs", session.SupplyIt: "takes", session.Leave: "leaves", session.Drop: "drops"}
	for _, p := range plan {
		out.printErr("%-9s %s: %s", words[p.Action], p.AssignmentID, safetext.Line(p.Reason))
	}
}

// announce prints the session's id, or its document.
func announce(out *console, doc control.Started) error {
	return out.result(doc, func() { out.print("%s", doc.Session) })
}
