package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// The documents of `logs -f -o json`, a line each. Kind says which one it is.
type (
	// followedAttempt is an attempt that has ended; its kind is attempt.
	followedAttempt struct {
		Kind string `json:"kind"`
		attemptLog
	}
	// followedProgress is an agent's progress line; its kind is progress.
	followedProgress struct {
		Kind string `json:"kind"`
		spec.AssignmentID
		Text string    `json:"text"`
		At   time.Time `json:"at"`
	}
	// followedEnd is the session's state at the end, the last document; its kind is
	// session.
	followedEnd struct {
		Kind    string        `json:"kind"`
		Session string        `json:"session"`
		Status  session.State `json:"status"`
		Reason  string        `json:"reason,omitempty"`
	}
)

// logFollower prints a session's logs live.
type logFollower struct {
	*logReader
	// watcher is nil without Temporal.
	watcher *sessionstatus.Watcher
	// printed has the keys of attempts that were printed, or omitted by --tail or --since.
	printed map[string]bool
	// progress is the last progress line of each assignment, and live the output of its
	// running attempt.
	progress map[spec.AssignmentID]string
	live     map[spec.AssignmentID]*assignmentOutput
	lost     bool
	// muted: output of running agents so far is not printed.
	muted bool
}

// follow prints attempts and output until the session ends or waits for a person, or ctx
// ends. It waits for a lost connection.
func (r *logReader) follow(ctx context.Context) error {
	f := &logFollower{logReader: r, progress: map[spec.AssignmentID]string{}, live: map[spec.AssignmentID]*assignmentOutput{}}
	defer f.close()
	conn, err := r.dialToLook(ctx, "following only the store")
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
		f.watcher = &sessionstatus.Watcher{Conn: conn, Store: r.store, Session: r.key.Session, Now: r.now}
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		status, err := f.look(ctx)
		if err == nil {
			err = f.step(ctx, status)
		}
		if err == nil && hasOutcome(status.Status) {
			return f.end(status)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			r.printErr("session %s continues; follow it again: %s", r.key.Session, r.commandLine("logs -f "+r.key.Session))
			return exit(exitInterrupted)
		case <-ticker.C:
		}
	}
}

// look reads the session's state from Temporal, else from the store.
func (f *logFollower) look(ctx context.Context) (session.Status, error) {
	if f.watcher != nil {
		v, err := f.watcher.Look(ctx)
		switch {
		case err == nil && f.lost:
			f.printErr("reconnected")
			f.lost = false
			return v.Status, nil
		case err == nil || ctx.Err() != nil || !temporalutil.Lost(err):
			return v.Status, err
		case !f.lost:
			f.lost = true
			f.printErr("lost the connection to Temporal at %s; following only the store until it is back", f.watcher.Conn.Address)
		}
	}
	e, err := f.store.Execution(f.key)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		return session.Status{}, ctx.Err() // the next write replaces it
	}
	if f.watcher != nil && e.Status.Status.Closed() {
		e.Status.Status = session.Running // only Temporal knows whether it has ended
	}
	return e.Status, err
}

// step prints what is new.
func (f *logFollower) step(ctx context.Context, status session.Status) error {
	logs, err := f.attempts(ctx)
	if err != nil {
		return err
	}
	first := f.printed == nil
	f.muted = first && f.tail == 0
	if first {
		f.printed = map[string]bool{}
	}
	fresh := slices.DeleteFunc(slices.Clone(logs), func(l attemptLog) bool { return f.printed[l.key()] })
	for _, l := range fresh {
		f.printed[l.key()] = true
	}
	if first {
		fresh = f.newestOf(fresh, f.now())
	}
	slices.SortStableFunc(fresh, func(x, y attemptLog) int { return x.EndedAt.Compare(y.EndedAt) })
	for _, l := range fresh {
		if err := f.readTexts(ctx, &l); err != nil {
			return err
		}
		if err := f.trim(&l); err != nil {
			return err
		}
		if err := f.printAttempt(l); err != nil {
			return err
		}
	}
	return f.printRunning(status)
}

// key identifies an attempt within the session.
func (l attemptLog) key() string {
	return fmt.Sprintf("%s %d %d %d %s %d", l.AssignmentID, l.Pass, l.Round, l.Attempt, l.Status, l.EndedAt.UnixNano())
}

func (f *logFollower) printAttempt(l attemptLog) error {
	if f.output == outputJSON {
		return f.line(followedAttempt{"attempt", l})
	}
	writeLog(f.console, l, f.full)
	f.print("")
	return nil
}

// printRunning prints the new output and progress of running agents.
func (f *logFollower) printRunning(status session.Status) error {
	phase, persona, _ := strings.Cut(f.selection, "/")
	for _, p := range status.Phases {
		for _, as := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}
			selected := (phase == "" || phase == id.Phase) && (persona == "" || persona == id.Persona)
			if !selected {
				continue
			}
			if err := f.printOutput(id, as.Status == session.Running); err != nil {
				return err
			}
			if as.Progress == f.progress[id] {
				continue
			}
			f.progress[id] = as.Progress
			if as.Progress == "" || f.live[id].has(as.Progress) {
				continue
			}
			if err := f.printLine(id, as.Progress); err != nil {
				return err
			}
		}
	}
	return nil
}

// printLine prints a line of a running assignment.
func (f *logFollower) printLine(id spec.AssignmentID, text string) error {
	if f.muted {
		return nil
	}
	if f.output == outputJSON {
		return f.line(followedProgress{"progress", id, text, f.now().UTC()})
	}
	if text = strings.TrimRight(safetext.Block(text), " "); text != "" {
		f.print("%s %s", f.palette.Paint(terminal.Cyan, id.String()+" |"), text)
	}
	return nil
}

// end prints the session's state, and returns its exit code.
func (f *logFollower) end(status session.Status) error {
	if f.output == outputJSON {
		if err := f.line(followedEnd{"session", f.key.Session, status.Status, status.Reason}); err != nil {
			return err
		}
		return exit(outcomeCode(status.Status))
	}
	f.printErr("session %s: %s", f.key.Session, status.Status)
	if code := outcomeCode(status.Status); code != exitDone {
		f.printErr("more: %s", f.commandLine("status "+f.key.Session))
		return exit(code)
	}
	return nil
}

// line writes a document as one line.
func (f *logFollower) line(document any) error {
	return f.writeJSON(document, "")
}
