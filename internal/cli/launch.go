package cli

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
)

// runDocument is the document of `run -o json`.
type runDocument struct {
	Session string `json:"session"`
	RunID   string `json:"run_id"`
	// Store is the id of the session's store.
	Store string `json:"store"`
	// Incarnation counts the session's Temporal runs, this one included.
	Incarnation int `json:"incarnation"`
	// Plan says of each assignment whether it is restored or runs, and why;
	// empty for a session that just begins at its beginning.
	Plan []session.PlanEntry `json:"plan,omitempty"`
}

// starter starts sessions for a person at a terminal.
type starter struct {
	*app
	launch.Launcher
}

// check refuses a session that cannot start, before anything is stored.
func (s starter) check(ctx context.Context, l launch.Session) error {
	return s.explain(s.Check(ctx, l))
}

// start starts a session, waits until it is admitted, and announces it.
func (s starter) start(ctx context.Context, l launch.Session, watch bool) error {
	started, v, err := s.startAndAwait(ctx, l)
	if started.Session == "" || err != nil && exitCode(err) == exitUsage {
		return err
	}
	printPlan(s.console, v.Plan)
	doc := runDocument{Session: started.Session, RunID: started.RunID, Store: s.Store.ID(), Incarnation: max(v.Incarnation, 1), Plan: v.Plan}
	// A session that is started and not admitted yet has its id all the same.
	if err := errors.Join(err, announce(s.console, doc)); err != nil || !watch {
		return err
	}
	return s.follow(ctx, s.watcher(started.Session))
}

// startAndAwait starts a session and waits until it is admitted. The session that it
// returns is empty if it was not started.
func (s starter) startAndAwait(ctx context.Context, l launch.Session) (launch.Started, sessionstatus.Session, error) {
	started, err := s.Start(ctx, l)
	if err != nil {
		return started, sessionstatus.Session{}, s.explain(err)
	}
	v, err := s.Admitted(ctx, started)
	watch := s.commandLine("watch " + started.Session)
	switch {
	case ctx.Err() != nil:
		s.printErr("the session is started and runs in the background: %s", watch)
	case errors.Is(err, launch.ErrNotAdmitted):
		err = failf("the session is started, but no worker admitted it within %s; it runs as soon as one does: %s", launch.AdmissionTimeout, watch)
	}
	return started, v, s.explain(err)
}

func (s starter) watcher(sessionID string) *sessionstatus.Watcher {
	return &sessionstatus.Watcher{Conn: s.Conn, Store: s.Store, Session: sessionID, Now: s.Now}
}

// explain adds to an error what a person can do.
func (s starter) explain(err error) error {
	var taken *launch.TakenError
	var running *launch.RunningError
	var refused *launch.RefusedError
	switch {
	case errors.As(err, &taken):
		return usagef("%w; choose another --session, or show it with `%s`", err, s.commandLine("status "+taken.Session))
	case errors.As(err, &running), errors.As(err, &refused):
		return usagef("%w", err)
	}
	return err
}

// printPlan prints what is restored and what runs, and why.
func printPlan(out *console, plan []session.PlanEntry) {
	words := map[session.PlanAction]string{session.Restore: "restores", session.RunIt: "runs", session.SupplyIt: "takes", session.Leave: "leaves", session.Drop: "drops"}
	for _, p := range plan {
		out.printErr("%-9s %s: %s", words[p.Action], p.AssignmentID, safetext.Line(p.Reason))
	}
}

// announce prints the session's id, or its document.
func announce(out *console, doc runDocument) error {
	return out.result(doc, func() { out.print("%s", doc.Session) })
}
