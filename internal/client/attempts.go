package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/maestro-hive/maestro/internal/control"
)

// The kinds of events that a client adds to those of a server: the server cannot be reached, until it
// is back.
const (
	ServerLost control.EventKind = "server_lost"
	ServerBack control.EventKind = "server_back"
)

// Attempts are described with [control.Attempts].
type Attempts struct{ *Client }

// List lists the attempts that are selected.
func (a Attempts) List(ctx context.Context, sessionID string, selected control.Select) (doc control.AttemptList, err error) {
	return read[control.AttemptList](ctx, a.Client, ofSession(sessionID, "attempts"), selection(selected))
}

func selection(selected control.Select) url.Values {
	if selected == "" {
		return nil
	}
	return url.Values{"assignment": {string(selected)}}
}

// Log is the texts of a finished attempt.
func (a Attempts) Log(ctx context.Context, sessionID string, at control.Attempt) (doc control.AttemptLog, err error) {
	where := ofSession(sessionID, "attempts", at.Phase, at.Persona, strconv.Itoa(at.Round), strconv.Itoa(at.Attempt), "log")
	return read[control.AttemptLog](ctx, a.Client, where, url.Values{"pass": {strconv.Itoa(at.Pass)}})
}

// Follow yields the events of the selected attempts, from a position until the session has ended. It continues after a restart of the server.
func (a Attempts) Follow(ctx context.Context, sessionID string, selected control.Select, from string) iter.Seq2[control.Event, error] {
	return func(yield func(control.Event, error) bool) {
		for e, err := range stream[control.Event](ctx, a.Client, ofSession(sessionID, "attempts", "events"), selection(selected), from) {
			switch {
			case err != nil:
			case e.lost:
				e.data = control.Event{Kind: ServerLost}
			case e.back:
				e.data = control.Event{Kind: ServerBack}
			case e.data.Kind == control.AttemptEnded && (e.data.Attempt == nil || e.data.Of == nil): // of another version
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
