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
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
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

// logFollower prints what is new of a session's logs at each look at the session.
type logFollower struct {
	*logsCommand
	// told are the attempts that have ended and were printed, or are not wanted; nil: there was no look yet.
	told map[control.AttemptRef]bool
	// last is the end of the newest of them.
	last time.Time
	live map[spec.AssignmentID]*liveOutput
	// muted: the output so far is not wanted.
	muted  bool
	damage string
	// lost: the connection is lost.
	lost bool
}

// liveOutput is what was printed of an attempt in progress.
type liveOutput struct {
	started time.Time
	// to is the offset after it, and printed its end.
	to      int64
	printed string
	// brief shortens it.
	brief transcript.Brief
	// progress is the newest line of progress.
	progress string
}

// followLogs prints attempts and output until the session ends or waits for a person, or ctx
// ends. It waits for a lost connection.
func (c *logsCommand) followLogs(ctx context.Context) error {
	f := &logFollower{logsCommand: c, live: map[spec.AssignmentID]*liveOutput{}, muted: c.tail == 0}
	v, err := track(ctx, c.backend.lookout(c.session, c.now), f, hasOutcome)
	if ctx.Err() != nil {
		c.printErr("session %s continues; follow it again: %s", c.session, c.commandLine("logs -f "+c.session))
		return exit(exitInterrupted)
	}
	if err != nil {
		return c.explain(err)
	}
	return f.end(v.Status)
}

func (f *logFollower) disconnected(why string) {
	f.lost = true
	f.printErr("%s", why)
}

// recordedWithin is how long after its end an attempt may be recorded: its store may be away. One that is recorded later is
// printed at the end of the session.
const recordedWithin = 10 * time.Minute

// update prints the attempts that have ended, in the order of their ends, and the output of those in progress.
func (f *logFollower) update(ctx context.Context, v sessionstatus.Session) error {
	in := f.filter()
	if !f.last.IsZero() && !hasOutcome(v.Status.Status) {
		in.EndedAfter = f.last.Add(-recordedWithin)
	}
	list, err := invoke(ctx, f.backend, httpapi.ListAttempts, in)
	if err != nil {
		return err
	}
	if f.lost {
		f.lost = false
		f.printErr("reconnected")
	}
	if f.damage != list.Damage.Damage {
		if f.damage = list.Damage.Damage; f.damage != "" {
			f.printErr("%s", f.damage)
		}
	}
	ended := slices.DeleteFunc(slices.Clone(list.Attempts), inProgress)
	slices.SortStableFunc(ended, func(x, y control.Attempt) int { return x.Ended().Compare(y.Ended()) })
	if f.told == nil {
		f.told = map[control.AttemptRef]bool{}
		for _, a := range ended {
			f.told[a.AttemptRef] = true
		}
		for _, a := range f.newestOf(slices.Clone(ended), f.now()) {
			delete(f.told, a.AttemptRef)
		}
	}
	for _, a := range ended {
		if !f.told[a.AttemptRef] {
			if err := f.tellEnded(ctx, a); err != nil {
				return err
			}
		}
		f.told[a.AttemptRef], f.last = true, a.Ended()
	}
	for _, a := range list.Attempts {
		if inProgress(a) {
			if err := f.tellOutput(ctx, a, v.Assignment(a.AssignmentID)); err != nil {
				return err
			}
		}
	}
	f.muted = false
	return nil
}

// tellOutput prints what an attempt in progress has printed since the last look or, if that is on another host, its newest
// line of progress.
func (f *logFollower) tellOutput(ctx context.Context, a control.Attempt, status *session.AssignmentStatus) error {
	l := f.live[a.AssignmentID]
	if l == nil || !l.started.Equal(a.StartedAt) {
		l = &liveOutput{started: a.StartedAt}
		f.live[a.AssignmentID] = l
	}
	for {
		part, err := invoke(ctx, f.backend, httpapi.ReadTranscript, control.RangeInput{
			AttemptInput: a.Input(f.session), From: l.to, Limit: maxPart,
		})
		switch {
		case control.ProblemOf(err).Kind == control.NotFound, part.Log != "": // it has ended, or its work was sent back
			return nil
		case err != nil:
			return err
		case part.Size == 0 && status != nil:
			return f.tellProgress(a.AssignmentID, l, status.Progress)
		case part.Size > 0 && part.From < l.to: // another worker has begun the output anew
			*l = liveOutput{started: a.StartedAt}
		}
		if part.To <= l.to {
			return nil
		}
		l.to = part.To
		if f.muted {
			continue
		}
		printed := l.printed + part.Text
		l.printed = printed[max(len(printed)-maxPrinted, 0):]
		for line := range strings.Lines(part.Text) {
			if err := f.printOutput(a.AssignmentID, l, strings.TrimSuffix(line, "\n")); err != nil {
				return err
			}
		}
	}
}

// tellProgress prints a line of progress if it is new.
func (f *logFollower) tellProgress(id spec.AssignmentID, l *liveOutput, line string) error {
	if line = session.WithoutNextLook(line); line == l.progress {
		return nil
	}
	l.progress = line
	if line == "" || f.muted {
		return nil
	}
	return f.printLine(id, line)
}

// tellEnded prints an attempt that has ended: the part of its transcript that was not printed while it ran.
func (f *logFollower) tellEnded(ctx context.Context, a control.Attempt) error {
	log, err := f.read(ctx, a)
	if err != nil {
		return err
	}
	l := f.live[a.AssignmentID]
	if l == nil || !l.started.Equal(a.StartedAt) {
		return f.printAttempt(log)
	}
	delete(f.live, a.AssignmentID)
	if f.output != outputJSON {
		for _, line := range l.brief.End() {
			if err := f.printLine(a.AssignmentID, line); err != nil {
				return err
			}
		}
		log.Text = unprinted(l.printed, safetext.Block(log.Text))
	}
	return f.printAttempt(log)
}

const (
	// maxPrinted bounds what is kept of the output of a running attempt, in bytes.
	maxPrinted = 1 << 20
	// maxOverlap is the length of the output's end that is searched for in a transcript, in bytes.
	maxOverlap = 4 << 10
	// maxPart is how much output is read at once, in bytes.
	maxPart = 256 << 10
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
func (f *logFollower) printOutput(id spec.AssignmentID, l *liveOutput, line string) error {
	shown := []string{line}
	if !f.full && f.output != outputJSON {
		shown = l.brief.Line(line)
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
func (f *logFollower) end(status session.Status) error {
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
