package control

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// EventKind is the kind of an event of a session's attempts.
type EventKind string

// The kinds of events.
const (
	// AttemptEnded: an attempt has ended.
	AttemptEnded EventKind = "attempt"
	// AttemptPrinted: a running attempt has printed lines.
	AttemptPrinted EventKind = "output"
	// AttemptProgress: the newest line of progress of an attempt on another host.
	AttemptProgress EventKind = "progress"
	// SessionIs: the session has changed its state. It is the first event, too.
	SessionIs EventKind = "session"
	// TemporalLost and TemporalBack: Temporal cannot be reached, or can be reached again. Between
	// them only the store's data is followed.
	TemporalLost EventKind = "lost"
	TemporalBack EventKind = "back"
)

// Event is an event of a session's attempts.
type Event struct {
	// ID is the position after the event, from which [Attempts.Follow] continues.
	ID   string    `json:"id"`
	Kind EventKind `json:"kind"`
	At   time.Time `json:"at"`
	// Of is the assignment; null: the event is about the session.
	Of *spec.AssignmentID `json:"of,omitempty"`
	// Attempt is the attempt that has ended.
	Attempt *Attempt `json:"attempt,omitempty"`
	// Text has complete lines of output, or a line of progress.
	Text string `json:"text,omitempty"`
	// Status and Reason are the session's.
	Status session.State `json:"status,omitempty"`
	Reason string        `json:"reason,omitempty"`
	// Unprinted returns the part of the ended attempt's transcript that was in no event.
	Unprinted func(transcript string) string `json:"-"`
}

// FollowNew is the position from which only later events are followed.
const FollowNew = "now"

const (
	// followEvery is the time between two reads of a followed session.
	followEvery = time.Second
	// maxOutput limits the text of an event, in bytes.
	maxOutput = 64 << 10
)

// follower follows a session.
type follower struct {
	Attempts
	key      session.Key
	selected Select
	watcher  *sessionstatus.Watcher
	// at is the position of the reader, and from the one that it began with. received are the attempts
	// since then.
	at, from followPosition
	received map[attemptEnd]bool
	// muted: earlier events are left out.
	muted, lost bool
	state       session.State
	progress    map[spec.AssignmentID]string
	// ended is when the last attempt of each assignment ended.
	ended map[spec.AssignmentID]time.Time
	tails map[spec.AssignmentID]*Tail
	yield func(Event, error) bool
}

// errStopped reports that the reader has stopped.
var errStopped = errors.New("the reader has stopped")

// Follow yields the events of the selected attempts, from a position until the session has ended.
// The empty position is the beginning. It continues while Temporal cannot be reached.
func (a Attempts) Follow(ctx context.Context, sessionID string, selected Select, from string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{
			Attempts: a, selected: selected, muted: from == FollowNew, yield: yield,
			received: map[attemptEnd]bool{}, progress: map[spec.AssignmentID]string{}, ended: map[spec.AssignmentID]time.Time{}, tails: map[spec.AssignmentID]*Tail{},
		}
		defer f.close()
		err := f.begin(ctx, sessionID, from)
		if err == nil {
			err = f.run(ctx)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Event{}, err)
		}
	}
}

func (f *follower) begin(ctx context.Context, sessionID, from string) (err error) {
	if f.at, err = followPositionOf(from); err != nil {
		return err
	}
	if f.from, err = followPositionOf(from); err != nil { // it shares nothing with the other
		return err
	}
	if _, f.key, err = f.inStore(ctx, sessionID); err != nil {
		return err
	}
	f.watcher, err = f.Attempts.watcher(sessionID)
	return err
}

func (f *follower) run(ctx context.Context) error {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		status, err := f.look(ctx)
		if err == nil {
			err = f.step(ctx, status)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case status.Status.Closed():
			return nil
		}
		f.muted = false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// emit yields an event.
func (f *follower) emit(e Event) error {
	e.ID, e.At = f.at.String(), f.Now().UTC()
	if !f.yield(e, nil) {
		return errStopped
	}
	return nil
}

// look reads the session's state from Temporal, otherwise from the store.
func (f *follower) look(ctx context.Context) (session.Status, error) {
	f.watcher.Conn = f.conn()
	if f.watcher.Conn != nil {
		v, _, err := f.looks.get(f.key.Session).get(ctx, f.Now, followEvery/2, f.watcher.Look) // readers share it
		switch {
		case err == nil && f.lost:
			f.lost = false
			return v.Status, f.emit(Event{Kind: TemporalBack})
		case err == nil || ctx.Err() != nil || !temporalutil.Lost(err):
			return v.Status, looked(f.key.Session, err)
		case !f.lost:
			f.lost = true
			if err := f.emit(Event{Kind: TemporalLost}); err != nil {
				return v.Status, err
			}
		}
	}
	e, err := f.Store.Execution(f.key)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		return session.Status{}, ctx.Err() // the next write replaces it
	}
	if f.watcher.Conn != nil && e.Status.Status.Closed() {
		e.Status.Status = session.Running // only Temporal knows whether it has ended
	}
	return e.Status, err
}

// step yields the new events.
func (f *follower) step(ctx context.Context, status session.Status) error {
	if err := f.emitEnded(ctx); err != nil {
		return err
	}
	if err := f.emitRunning(ctx, status); err != nil {
		return err
	}
	if status.Status == f.state || status.Status == "" {
		return nil
	}
	f.state = status.Status
	return f.emit(Event{Kind: SessionIs, Status: status.Status, Reason: status.Reason})
}

// emitEnded yields the attempts that have ended, in the order of their ends.
func (f *follower) emitEnded(ctx context.Context) error {
	all, _, err := f.finished(ctx, f.key, f.selected)
	if err != nil {
		return err
	}
	for _, a := range all {
		f.ended[a.AssignmentID] = a.Ended()
	}
	all = slices.DeleteFunc(all, func(a Attempt) bool { return f.received[endOf(a)] || f.from.has(endOf(a)) })
	slices.SortStableFunc(all, func(x, y Attempt) int { return endOf(x).compare(endOf(y)) })
	for _, a := range all {
		f.received[endOf(a)] = true
		if f.muted {
			f.at.passed(a.AssignmentID, endOf(a))
			continue
		}
		unprinted := func(text string) string { return text }
		if t := f.tails[a.AssignmentID]; t != nil && t.file != nil {
			lines, err := t.readNew()
			if err == nil {
				err = f.emitLines(a.AssignmentID, t, lines)
			}
			if err != nil {
				return err
			}
			unprinted = func(text string) string {
				rest := t.Rest(text)
				if rest != text {
					t.text = nil
				}
				return rest
			}
			t.from = place{}
		}
		f.at.passed(a.AssignmentID, endOf(a))
		if err := f.emit(Event{Kind: AttemptEnded, Of: &a.AssignmentID, Attempt: &a, Unprinted: unprinted}); err != nil {
			return err
		}
	}
	return nil
}

// emitRunning yields the new output and progress of running agents.
func (f *follower) emitRunning(ctx context.Context, status session.Status) error {
	logs := f.LiveLogs(ctx)
	for _, p := range status.Phases {
		for _, as := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}
			if !f.selected.Matches(id) {
				continue
			}
			t := f.tails[id]
			if t == nil {
				t = &Tail{from: f.at.place(id)}
				f.tails[id] = t
			}
			t.after = f.ended[id]
			lines, err := t.Follow(logs, f.key, id, !as.Status.Done() && as.Status != session.Pending)
			if err == nil {
				err = f.emitLines(id, t, lines)
			}
			if err == nil {
				err = f.emitProgress(id, t, as.Progress)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// emitLines yields the printed lines of a running attempt.
func (f *follower) emitLines(id spec.AssignmentID, t *Tail, lines []string) error {
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line + "\n")
		if i == len(lines)-1 {
			break // only the last event has the position after all lines, so an interruption loses no line
		}
		if b.Len() < maxOutput || f.muted {
			continue
		}
		if err := f.emit(Event{Kind: AttemptPrinted, Of: &id, Text: b.String()}); err != nil {
			return err
		}
		b.Reset()
	}
	if t.file != nil {
		f.at.put(id, t.place())
	}
	if b.Len() == 0 || f.muted {
		return nil
	}
	return f.emit(Event{Kind: AttemptPrinted, Of: &id, Text: b.String()})
}

// emitProgress yields a line of progress that is not in the output.
func (f *follower) emitProgress(id spec.AssignmentID, t *Tail, line string) error {
	if line == f.progress[id] {
		return nil
	}
	f.progress[id] = line
	if line == "" || f.muted || t.Has(line) {
		return nil
	}
	return f.emit(Event{Kind: AttemptProgress, Of: &id, Text: textfmt.Shorten(line, maxLine)})
}

func (f *follower) close() {
	for t := range maps.Values(f.tails) {
		t.Close()
	}
}
