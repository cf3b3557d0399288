package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
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
	*logsCommand
	// briefs shorten the output of the running attempts, and printed is its end.
	briefs  map[spec.AssignmentID]*transcript.Brief
	printed map[spec.AssignmentID]string
}

// followLogs prints attempts and output until the session ends or waits for a person, or ctx
// ends. It waits for a lost connection.
func (c *logsCommand) followLogs(ctx context.Context) error {
	f := &logFollower{logsCommand: c, briefs: map[spec.AssignmentID]*transcript.Brief{}, printed: map[spec.AssignmentID]string{}}
	from, err := f.begin(ctx)
	if err != nil {
		return err
	}
	for e, err := range c.backend.follow(ctx, control.FollowInput{AttemptFilter: c.filter(), From: from}) {
		if err == nil {
			err = f.take(ctx, e)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return c.explain(ctx, c.backend, err)
		}
		if e.Kind == control.SessionIs && hasOutcome(e.Status) {
			return f.end(e)
		}
	}
	c.printErr("session %s continues; follow it again: %s", c.session, c.commandLine("logs -f "+c.session))
	return exit(exitInterrupted)
}

// begin prints the finished attempts, and returns the position after them.
func (f *logFollower) begin(ctx context.Context) (from string, err error) {
	list, err := f.attempts(ctx)
	if err != nil || f.tail == 0 {
		return control.FollowNew, err
	}
	slices.SortStableFunc(list.Attempts, func(x, y control.Attempt) int { return x.Ended().Compare(y.Ended()) })
	logs, err := f.newest(ctx, list)
	if err != nil {
		return "", err
	}
	for _, l := range logs {
		if err := f.printAttempt(l); err != nil {
			return "", err
		}
	}
	return list.Next, nil
}

// take prints events.
func (f *logFollower) take(ctx context.Context, e control.Event) error {
	switch e.Kind {
	case control.AttemptEnded:
		return f.takeEnded(ctx, e)
	case control.AttemptPrinted:
		printed := f.printed[*e.Of] + e.Text
		f.printed[*e.Of] = printed[max(len(printed)-maxPrinted, 0):]
		for line := range strings.Lines(e.Text) {
			if err := f.printOutput(*e.Of, strings.TrimSuffix(line, "\n")); err != nil {
				return err
			}
		}
	case control.AttemptProgress:
		return f.printLine(*e.Of, e.Text)
	case control.TemporalLost:
		f.printErr("lost the connection to %s; following only the store until it is back", f.backend.temporal())
	case client.ServerLost:
		f.printErr("lost the connection to %s; retrying (the session is not affected)", f.backend.where())
	case control.TemporalBack, client.ServerBack:
		f.printErr("reconnected")
	case control.SessionIs:
	}
	return nil
}

// takeEnded prints an attempt that has ended: the part of its transcript that was not printed while
// it ran.
func (f *logFollower) takeEnded(ctx context.Context, e control.Event) error {
	l, err := f.read(ctx, *e.Attempt)
	for lost := false; err != nil && lostConnection(err); l, err = f.read(ctx, *e.Attempt) {
		if !lost {
			lost = true
			f.printErr("lost the connection to %s; retrying (the session is not affected)", f.backend.where())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchEvery):
		}
	}
	if err != nil {
		return err
	}
	if brief := f.briefs[*e.Of]; brief != nil && f.output != outputJSON {
		for _, line := range brief.End() {
			if err := f.printLine(*e.Of, line); err != nil {
				return err
			}
		}
	}
	if f.output != outputJSON {
		l.Text = unprinted(f.printed[*e.Of], safetext.Block(l.Text))
		delete(f.printed, *e.Of)
	}
	return f.printAttempt(l)
}

const (
	// maxPrinted bounds what is kept of the output of a running attempt, in bytes.
	maxPrinted = 1 << 20
	// maxOverlap is the length of the output's end that is searched for in a transcript, in bytes.
	maxOverlap = 4 << 10
)

// unprinted returns the part of a transcript after the end of what was printed of it: all of it if that is not found.
func unprinted(printed, log string) string {
	if rest, ok := strings.CutPrefix(log, printed); ok {
		return rest
	}
	overlap := printed[max(len(printed)-maxOverlap, 0):] // the transcript is cut, or begins differently
	if i := strings.LastIndex(log, overlap); i >= 0 {
		return log[i+len(overlap):]
	}
	return log
}

func (f *logFollower) printAttempt(l attemptLog) error {
	if f.output == outputJSON {
		return f.line(followedAttempt{"attempt", l})
	}
	writeLog(f.console, l, f.full)
	f.print("")
	return nil
}

// printOutput prints a line of output, shortened unless --full is given.
func (f *logFollower) printOutput(id spec.AssignmentID, line string) error {
	shown := []string{line}
	if !f.full && f.output != outputJSON {
		if f.briefs[id] == nil {
			f.briefs[id] = &transcript.Brief{}
		}
		shown = f.briefs[id].Line(line)
	}
	for _, line := range shown {
		if err := f.printLine(id, line); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints a line of a running assignment.
func (f *logFollower) printLine(id spec.AssignmentID, text string) error {
	if f.output == outputJSON {
		return f.line(followedProgress{"progress", id, text, f.now().UTC()})
	}
	if text = strings.TrimRight(safetext.Block(text), " "); text != "" {
		f.print("%s %s", f.palette.Paint(terminal.Cyan, id.String()+" |"), text)
	}
	return nil
}

// end prints the session's state, and returns its exit code.
func (f *logFollower) end(status control.Event) error {
	code := outcomeCode(status.Status)
	if f.output == outputJSON {
		return cmp.Or(f.line(followedEnd{"session", f.session, status.Status, status.Reason}), exit(code))
	}
	f.printErr("session %s: %s", f.session, status.Status)
	if code != exitDone {
		f.printErr("more: %s", f.commandLine("status "+f.session))
	}
	return exit(code)
}

// line writes a document as one line.
func (f *logFollower) line(document any) error {
	return f.writeJSON(document, "")
}
