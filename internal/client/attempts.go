package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/spec"
)

// The kinds of events that a client adds to those of a server: the server cannot be reached, until it
// is back.
const (
	ServerLost control.EventKind = "server_lost"
	ServerBack control.EventKind = "server_back"
)

// maxPrinted bounds what is kept of the output of a running attempt, in bytes.
const maxPrinted = 1 << 20

// Attempts are described with [control.Attempts].
type Attempts struct{ *Client }

// List lists the attempts that are selected.
func (a Attempts) List(ctx context.Context, sessionID string, selected control.Select) (doc control.AttemptList, err error) {
	at, err := ofSession(sessionID, "attempts")
	if err != nil {
		return doc, err
	}
	return read[control.AttemptList](ctx, a.Client, at, selection(selected))
}

func selection(selected control.Select) url.Values {
	if selected == "" {
		return nil
	}
	return url.Values{"assignment": {string(selected)}}
}

// Log is the texts of a finished attempt.
func (a Attempts) Log(ctx context.Context, sessionID string, at control.Attempt) (doc control.AttemptLog, err error) {
	where, err := ofSession(sessionID, "attempts", at.Phase, at.Persona, strconv.Itoa(at.Round), strconv.Itoa(at.Attempt), "log")
	if err != nil {
		return doc, err
	}
	return read[control.AttemptLog](ctx, a.Client, where, url.Values{"pass": {strconv.Itoa(at.Pass)}})
}

// Follow yields the events of the selected attempts, from a position until the session has ended. It continues after a restart of the server.
func (a Attempts) Follow(ctx context.Context, sessionID string, selected control.Select, from string) iter.Seq2[control.Event, error] {
	return func(yield func(control.Event, error) bool) {
		where, err := ofSession(sessionID, "attempts", "events")
		if err != nil {
			yield(control.Event{}, err)
			return
		}
		f := &followed{printed: map[spec.AssignmentID]string{}, progress: map[spec.AssignmentID]string{}}
		for e, err := range stream[control.Event](ctx, a.Client, where, selection(selected), from) {
			switch {
			case err != nil:
			case e.lost:
				e.data = control.Event{Kind: ServerLost}
			case e.back:
				e.data = control.Event{Kind: ServerBack}
			case !f.take(&e.data):
				continue
			}
			if !yield(e.data, err) || err != nil {
				return
			}
			if e.data.Kind == control.SessionIs && e.data.Status.Closed() {
				return
			}
		}
	}
}

// followed is what a reader has had of attempts at work.
type followed struct{ printed, progress map[spec.AssignmentID]string }

// take notes an event, and reports whether it is new: a server repeats the newest progress to who connects
// again.
func (f *followed) take(e *control.Event) bool {
	if e.Of == nil {
		return true
	}
	id := *e.Of
	switch e.Kind {
	case control.AttemptPrinted:
		f.printed[id] += e.Text
		f.printed[id] = f.printed[id][max(len(f.printed[id])-maxPrinted, 0):]
	case control.AttemptProgress:
		known := f.progress[id] == e.Text
		f.progress[id] = e.Text
		return !known
	case control.AttemptEnded:
		printed := f.printed[id]
		delete(f.printed, id)
		e.Unprinted = func(transcript string) string { return control.Unprinted(printed, transcript) }
	default: // of the session
	}
	return e.Kind != control.AttemptEnded || e.Attempt != nil
}
