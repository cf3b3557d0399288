package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/index"
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
	Removed bool   `json:"removed,omitempty"`
}

// Feed notifies followers of changed sessions. One read of the store serves all of them.
type Feed struct {
	*Base
	Index *index.Index
	Log   *slog.Logger

	mu        sync.Mutex
	followers int
	// first wakes Run at the first follower, changed wakes all followers.
	first, changed chan struct{}
}

// NewFeed returns a feed. It needs Run.
func NewFeed(b *Base, x *index.Index, log *slog.Logger) *Feed {
	return &Feed{Base: b, Index: x, Log: log, first: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Run looks for changes while there are followers, until the context ends.
func (f *Feed) Run(ctx context.Context) {
	ticker := time.NewTicker(feedPause)
	defer ticker.Stop()
	var told index.Position
	for {
		if f.count(0) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-f.first:
			}
		}
		done, err := f.Index.Refresh(ctx, f.Namespace)
		if err != nil && ctx.Err() == nil {
			f.Log.Warn("changes of the store cannot be read", "error", err)
		}
		// Lists and other processes find changes, too.
		changed := err == nil && done.Position != told
		if changed {
			told = done.Position
		}
		if changed {
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
func (f *Feed) Follow(ctx context.Context, after, only string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if f.count(1) == 1 {
			select {
			case f.first <- struct{}{}:
			default:
			}
		}
		defer f.count(-1)
		at := parsePosition(after)
		for {
			woken := f.next()
			changes, now, err := f.Index.Changes(ctx, f.Namespace, at)
			if errors.Is(err, index.ErrReset) {
				err = nil
				changes = []index.Change{{Sequence: now.Sequence}} // all may have changed
			}
			if err != nil {
				yield(Change{}, err)
				return
			}
			if !f.emit(ctx, changes, now, only, yield) {
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
func (f *Feed) emit(ctx context.Context, changes []index.Change, now index.Position, only string, yield func(Change, error) bool) bool {
	for _, c := range changes {
		all := c.Session == ""
		if !all && (only != "" && c.Session != only || !f.mayView(ctx, c.Session)) {
			continue
		}
		if !yield(Change{ID: position(index.Position{Epoch: now.Epoch, Sequence: c.Sequence}), Session: c.Session, Removed: c.Removed}, nil) {
			return false
		}
	}
	return true
}

// mayView reports whether the caller may view a session. Its team is from the index, which was just
// updated.
func (f *Feed) mayView(ctx context.Context, sessionID string) bool {
	if access.Check(ctx, access.View, access.AllTeams) == nil {
		return true
	}
	known, ok, err := f.Index.Session(ctx, f.key(sessionID))
	if err == nil && ok && known.Team != "" {
		return access.Check(ctx, access.View, known.Team) == nil
	}
	return f.may(ctx, access.View, sessionID) == nil
}

// position is a position as text.
func position(p index.Position) string { return fmt.Sprintf("%v.%d", p.Epoch, p.Sequence) }

// parsePosition reads a position. An invalid one has an epoch that no index has.
func parsePosition(text string) index.Position {
	epoch, sequence, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(sequence, 10, 64)
	if !ok || err != nil || epoch == "" {
		return index.Position{Epoch: "none"}
	}
	return index.Position{Epoch: epoch, Sequence: n}
}
