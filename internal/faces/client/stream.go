package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

const (
	// silence is the longest one of a server that lives: it sends a comment every 15 seconds.
	silence = 50 * time.Second
	// reconnectPause is between attempts to reach a server that was lost.
	reconnectPause = time.Second
	// maxEvent bounds an event, in bytes.
	maxEvent = 16 << 20
)

// The kinds of events that a client adds to those of a server: the server cannot be reached, until it
// is back.
const (
	ServerLost control.EventKind = "server_lost"
	ServerBack control.EventKind = "server_back"
)

// errBroken says that a stream has ended because of the connection or the server.
var errBroken = errors.New("the stream has ended")

// errStopped says that the reader wants no more events, or that there are none.
var errStopped = errors.New("the reader has stopped")

// lastEvent is the header with the position from which events are followed.
const lastEvent = "Last-Event-ID"

// FollowAttempts yields the events of attempts of the server, from a position until their session has
// ended. It continues after a loss of the connection and a restart of the server, which is asked for what comes after the
// last event.
func FollowAttempts(ctx context.Context, c *Client, in control.FollowInput) iter.Seq2[control.Event, error] {
	return func(yield func(control.Event, error) bool) {
		r, err := requestOf(httpapi.FollowAttempts.Route, in)
		if err != nil {
			yield(control.Event{}, err)
			return
		}
		r.head["Accept"] = "text/event-stream"
		connected, lost := false, false // connected: the server has once taken the request
		take := func(id string, data []byte) error {
			if lost && !yield(control.Event{Kind: ServerBack}, nil) {
				return errStopped
			}
			lost = false
			var e control.Event
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("the Maestro server at %s: an event cannot be read: %w", c.base, err)
			}
			if id != "" {
				r.head[lastEvent] = id
			}
			foreign := e.Kind == control.AttemptEnded && (e.Attempt == nil || e.Of == nil) // of another version
			if !foreign && !yield(e, nil) || e.Kind == control.SessionIs && e.Status.Closed() {
				return errStopped
			}
			return nil
		}
		for ctx.Err() == nil {
			err := follow(ctx, c, r, take)
			connected = connected || errors.Is(err, errBroken)
			switch {
			case errors.Is(err, errStopped) || ctx.Err() != nil:
				return
			case !errors.Is(err, errBroken) && (!connected || !Away(err)):
				yield(control.Event{}, err)
				return
			case !lost:
				if lost = true; !yield(control.Event{Kind: ServerLost}, nil) {
					return
				}
			}
			if !sleep(ctx, reconnectPause) {
				return
			}
		}
	}
}

// follow reads one connection's events until it ends; the error is never nil.
func follow(ctx context.Context, c *Client, in request, take func(id string, data []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got, err := c.do(ctx, in)
	if err != nil {
		return err
	}
	defer got.Body.Close() //nolint:errcheck // only read
	alive := time.AfterFunc(silence, cancel)
	defer alive.Stop()
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, maxEvent)
	var kind, id string
	var data []byte
	for lines.Scan() {
		alive.Reset(silence)
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "id":
			id = string(value)
		case "data":
			data = bytes.Clone(value) // the server writes one line
		case "":
			if len(lines.Bytes()) > 0 || data == nil { // a comment, or nothing
				continue
			}
			if kind == "problem" {
				return c.problemIn(data)
			}
			if err := take(id, data); err != nil {
				return err
			}
			kind, id, data = "", "", nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("the Maestro server at %s: an event is larger than %d MiB", c.base, maxEvent>>20)
	}
	return errBroken
}

// problemIn is the error of an event that says why a stream ends.
func (c *Client) problemIn(data []byte) error {
	var p httpapi.Problem
	if json.Unmarshal(data, &p) != nil || p.Status >= http.StatusInternalServerError && p.Kind == "" {
		return errBroken
	}
	if p.Kind != "" {
		return p.Err(p.Text(p.Status))
	}
	return fmt.Errorf("the Maestro server at %s: %s", c.base, p.Text(p.Status))
}
