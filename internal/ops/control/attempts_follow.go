package control

import (
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
)

// EventKind is the kind of an event of a session's attempts.
type EventKind string

// The kinds of events.
const (
	// AttemptEnded: an attempt has ended. Its last lines may be in its transcript only.
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
}

// FollowNew is the position from which only later events are followed.
const FollowNew = "now"

// followEvery is the time between two reads of a followed session.
const followEvery = time.Second

// follower follows a session.
type follower struct {
	Attempts
	key      session.Key
	selected Select
	status   *sessionstatus.Reader
	// assignments are the session's, and places what the reader has received of each.
	assignments []spec.AssignmentID
	places      map[spec.AssignmentID]place
	// muted: earlier events are left out.
	muted, lost bool
	state       session.State
	progress    map[spec.AssignmentID]string
	// ended is when the last attempt of each assignment ended.
	ended map[spec.AssignmentID]time.Time
	live  map[spec.AssignmentID]liveLog
	yield func(Event, error) bool
}

// liveLog is the live log of an assignment that was read last, and the offset after what was read of it.
type liveLog struct {
	file   os.FileInfo
	offset int64
}

// errStopped reports that the reader has stopped.
var errStopped = errors.New("the reader has stopped")

// Event is the kind of the event, and the position after it.
func (e Event) Event() (kind, position string) { return string(e.Kind), e.ID }

// FollowInput selects attempts of a session, and the position from which they are followed: that of
// the last event that the reader has. The empty position is the beginning.
type FollowInput struct {
	AttemptFilter
	From string `header:"Last-Event-ID" maxLength:"4096" doc:"the id of the last event that the reader has"`
}

// Follow yields the events of the selected attempts, from a position until the session has ended.
// It continues while Temporal cannot be reached.
func (a Attempts) Follow(ctx context.Context, in FollowInput) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{
			Attempts: a, selected: in.Assignment, muted: in.From == FollowNew, yield: yield,
			progress: map[spec.AssignmentID]string{}, ended: map[spec.AssignmentID]time.Time{}, live: map[spec.AssignmentID]liveLog{},
		}
		err := f.begin(ctx, in.Session, in.From)
		if err == nil {
			err = f.run(ctx)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Event{}, err)
		}
	}
}

func (f *follower) begin(ctx context.Context, sessionID, from string) (err error) {
	if _, f.key, err = f.inStore(ctx, sessionID); err != nil {
		return err
	}
	e, err := f.execution(ctx, f.key)
	if err != nil {
		return err
	}
	if f.places, err = placesAt(from, assignmentsOf(e)); err != nil {
		return err
	}
	f.status, err = f.reader(sessionID)
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
	e.ID, e.At = positionOf(f.assignments, f.places), f.Now().UTC()
	if !f.yield(e, nil) {
		return errStopped
	}
	return nil
}

// look reads the session's state from Temporal, otherwise from the store.
func (f *follower) look(ctx context.Context) (session.Status, error) {
	f.status.Conn = f.conn()
	if f.status.Conn != nil {
		v, err := f.status.Look(ctx)
		switch {
		case err == nil && f.lost:
			f.lost = false
			return v.Status, f.emit(Event{Kind: TemporalBack})
		case err == nil || ctx.Err() != nil || !temporalutil.Unreachable(err):
			return v.Status, asNotFound(f.key.Session, err)
		case !f.lost:
			f.lost = true
			if err := f.emit(Event{Kind: TemporalLost}); err != nil {
				return v.Status, err
			}
		}
	}
	e, err := f.execution(ctx, f.key)
	if f.status.Conn != nil && e.Status.Status.Closed() {
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
	e, err := f.execution(ctx, f.key)
	if err != nil {
		return err
	}
	f.assignments = assignmentsOf(e)
	all, _, err := f.finished(ctx, f.key, e, f.selected)
	if err != nil {
		return err
	}
	count, news := map[spec.AssignmentID]int{}, []Attempt{}
	for _, a := range all {
		f.ended[a.AssignmentID] = a.Ended()
		if count[a.AssignmentID]++; count[a.AssignmentID] > f.places[a.AssignmentID].ended {
			news = append(news, a)
		}
	}
	slices.SortStableFunc(news, func(x, y Attempt) int { return x.Ended().Compare(y.Ended()) })
	for _, a := range news {
		f.places[a.AssignmentID] = place{ended: f.places[a.AssignmentID].ended + 1} // the next one begins another live log
		if f.muted {
			continue
		}
		if err := f.emit(Event{Kind: AttemptEnded, Of: &a.AssignmentID, Attempt: &a}); err != nil {
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
			if as.Status.Done() || as.Status == session.Pending {
				continue
			}
			if err := f.emitOutput(logs, id, as.Progress); err != nil {
				return err
			}
		}
	}
	return nil
}

// emitOutput yields what a running attempt has printed since the last look or, if its log is on another host, its newest
// line of progress.
func (f *follower) emitOutput(logs LiveLogs, id spec.AssignmentID, progress string) error {
	file, err := logs.open(f.key, id)
	if err != nil {
		return f.emitProgress(id, progress)
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil || !info.ModTime().After(f.ended[id]) { // it is the previous attempt's
		return err
	}
	last, known := f.live[id]
	switch {
	case !known:
		last.offset = f.places[id].offset
	case !os.SameFile(last.file, info):
		last.offset = 0
	}
	for {
		from, text, err := linesOf(file, last.offset)
		last = liveLog{info, from + int64(len(text))}
		f.live[id] = last
		if err != nil || text == "" {
			return err
		}
		f.places[id] = place{f.places[id].ended, last.offset}
		if f.muted {
			continue
		}
		if err := f.emit(Event{Kind: AttemptPrinted, Of: &id, Text: safetext.Block(text)}); err != nil {
			return err
		}
	}
}

// emitProgress yields a line of progress if it is new.
func (f *follower) emitProgress(id spec.AssignmentID, line string) error {
	if line == f.progress[id] {
		return nil
	}
	f.progress[id] = line
	if line == "" || f.muted {
		return nil
	}
	return f.emit(Event{Kind: AttemptProgress, Of: &id, Text: textfmt.Shorten(line, maxLine)})
}
