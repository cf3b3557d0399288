package control

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// feedPause is the time between two reads of the store while there are followers.
const feedPause = time.Second

// Change reports that a session has changed: a view of it has to be read again.
type Change struct {
	// ID is the position after the change, from which a follower continues later.
	ID string `json:"-"`
	// Session is empty if all sessions may have changed: the follower's position is no longer
	// valid.
	Session string `json:"session"`
}

// Event is the kind of the event, and the position after it.
func (c Change) Event() (kind, position string) { return "change", c.ID }

// ChangesInput says which changes are followed.
type ChangesInput struct {
	Session string `query:"session" maxLength:"200" doc:"only changes of this session"`
	From    string `header:"Last-Event-ID" maxLength:"200" doc:"the id of the last event that the reader has"`
}

// Feed notifies followers of changed sessions. One read of the store serves all of them.
type Feed struct {
	*Base
	Log *slog.Logger

	mu        sync.Mutex
	followers int
	// first wakes Run at the first follower, changed wakes all followers.
	first, changed chan struct{}
}

// NewFeed returns a feed. It needs Run.
func NewFeed(b *Base, log *slog.Logger) *Feed {
	return &Feed{Base: b, Log: log, first: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Run looks for changes while there are followers, until the context ends.
func (f *Feed) Run(ctx context.Context) {
	ticker := time.NewTicker(feedPause)
	defer ticker.Stop()
	var told state.Position
	for {
		if f.count(0) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-f.first:
			}
		}
		at, err := f.Store.State.LastChange(ctx)
		if err != nil && ctx.Err() == nil {
			f.Log.Warn("changes of the store cannot be read", "error", err)
		}
		if err == nil && at != told {
			told = at
			f.wake()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// count changes the number of followers.
func (f *Feed) count(by int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers += by
	return f.followers
}

// wake wakes followers after a change of sessions.
func (f *Feed) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}

// next is a channel that is closed at the next change.
func (f *Feed) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Follow yields the changes after a position. If the position is empty or no longer valid, the
// first change is one of all sessions. Only sessions that the caller may view are yielded; if one is
// named, only that one.
func (f *Feed) Follow(ctx context.Context, in ChangesInput) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if f.count(1) == 1 {
			select {
			case f.first <- struct{}{}:
			default:
			}
		}
		defer f.count(-1)
		at := parsePosition(in.From)
		for {
			woken := f.next()
			changes, now, reset, err := f.Store.State.Changes(ctx, f.Namespace, at)
			if reset {
				changes = []state.Change{{Number: now.Number}} // all may have changed
			}
			if err != nil {
				yield(Change{}, err)
				return
			}
			if !f.emit(ctx, changes, now, in.Session, yield) {
				return
			}
			at = now
			select {
			case <-ctx.Done():
				return
			case <-woken:
			}
		}
	}
}

// emit yields changes; false: the reader has stopped.
func (f *Feed) emit(ctx context.Context, changes []state.Change, now state.Position, only string, yield func(Change, error) bool) bool {
	for _, c := range changes {
		all := c.Session == ""
		if !all && (only != "" && c.Session != only || !f.mayView(ctx, c.Session)) {
			continue
		}
		if !yield(Change{ID: position(state.Position{Installation: now.Installation, Number: c.Number}), Session: c.Session}, nil) {
			return false
		}
	}
	return true
}

// mayView reports whether the caller may view a session.
func (f *Feed) mayView(ctx context.Context, sessionID string) bool {
	if access.Check(ctx, access.View, access.AllTeams) == nil {
		return true
	}
	known, ok, err := f.Store.State.Session(ctx, f.key(sessionID))
	if err == nil && ok && known.Team != "" {
		return access.Check(ctx, access.View, known.Team) == nil
	}
	return f.may(ctx, access.View, sessionID) == nil
}

// position is a position as text.
func position(p state.Position) string { return fmt.Sprintf("%s.%d", p.Installation, p.Number) }

// parsePosition reads a position. An invalid one is of no database.
func parsePosition(text string) state.Position {
	installation, number, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || installation == "" {
		return state.Position{Installation: "none"}
	}
	return state.Position{Installation: installation, Number: n}
}
