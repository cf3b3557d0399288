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

// feedPause is between looks at the store while somebody follows.
const feedPause = time.Second

// Change says that a session has changed: who shows it reads it again.
type Change struct {
	// ID is the position after the change, from which a follower goes on later.
	ID string `json:"-"`
	// Session is empty where all may have changed: the follower's position is not known any more.
	Session string `json:"session"`
	Removed bool   `json:"removed,omitempty"`
}

// Feed tells followers which sessions change. The store is looked at once for all of them.
type Feed struct {
	*Base
	Index *index.Index
	Log   *slog.Logger

	mu        sync.Mutex
	followers int
	// alerts counts how often the alerts of the store have changed.
	alerts int64
	// first wakes Run when the first follower comes, changed all followers.
	first, changed chan struct{}
}

// NewFeed returns a feed. It needs Run.
func NewFeed(b *Base, x *index.Index, log *slog.Logger) *Feed {
	return &Feed{Base: b, Index: x, Log: log, first: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Run looks for changes while anybody follows, until the context ends.
func (f *Feed) Run(ctx context.Context) {
	ticker := time.NewTicker(feedPause)
	defer ticker.Stop()
	var told index.Position
	raised := f.raised()
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
		// Lists find changes, too, and so do other processes.
		changed := err == nil && done.Position != told
		if changed {
			told = done.Position
		}
		at := f.raised()
		if alerts := !at.Equal(raised); alerts || changed {
			raised = at
			f.wake(alerts)
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

// raised is when the alerts of the store have changed; zero: there are none.
func (f *Feed) raised() time.Time {
	alerts := Alerts{f.Base}
	key, err := alerts.alertsKey("raised")
	if err != nil {
		return time.Time{}
	}
	at, _ := f.Store.Storage().ModTime(key) // zero until it can be read
	return at
}

// wake wakes followers, because the alerts of the store have changed or something else.
func (f *Feed) wake(alerts bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if alerts {
		f.alerts++
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// next is closed with the next change, after so many of the alerts of the store.
func (f *Feed) next() (woken <-chan struct{}, alerts int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed, f.alerts
}

// Follow returns the changes after a position. Where that is empty or not known any more, the first
// change is one of all sessions; so is one of the alerts of the store. Only what the caller may view is
// told; one session, where it is named.
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
		_, known := f.next()
		for {
			woken, alerts := f.next()
			changes, now, err := f.Index.Changes(ctx, f.Namespace, at)
			if errors.Is(err, index.ErrReset) {
				err = nil
				changes = []index.Change{{Sequence: now.Sequence}} // all may have changed
			}
			if alerts != known && only == "" {
				changes = append(changes, index.Change{Sequence: now.Sequence})
			}
			known = alerts
			if err != nil {
				yield(Change{}, err)
				return
			}
			if !f.tell(ctx, changes, now, only, yield) {
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

// tell yields changes; false: nobody listens any more.
func (f *Feed) tell(ctx context.Context, changes []index.Change, now index.Position, only string, yield func(Change, error) bool) bool {
	for _, c := range changes {
		all := c.Session == ""
		if !all && (only != "" && c.Session != only || !f.tells(ctx, c.Session)) {
			continue
		}
		if !yield(Change{ID: position(index.Position{Epoch: now.Epoch, Sequence: c.Sequence}), Session: c.Session, Removed: c.Removed}, nil) {
			return false
		}
	}
	return true
}

// tells reports whether the caller may know of a session. Its team is the index's, which has just been
// brought up to date.
func (f *Feed) tells(ctx context.Context, sessionID string) bool {
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

// parsePosition reads a position. One that is none has an epoch that no index has.
func parsePosition(text string) index.Position {
	epoch, sequence, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(sequence, 10, 64)
	if !ok || err != nil || epoch == "" {
		return index.Position{Epoch: "none"}
	}
	return index.Position{Epoch: epoch, Sequence: n}
}
