package control

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// feedPause is the time between two reads of the store by a follower.
const feedPause = time.Second

// Change reports that a session has changed: a view of it has to be read again.
type Change struct {
	// ID is the position after the change, from which a follower continues later.
	ID string `json:"-"`
	// Session is empty if all sessions may have changed: the follower's position is no longer
	// valid.
	Session string `json:"session"`
}

// ChangesInput says which changes are followed.
type ChangesInput struct {
	Session string `query:"session" maxLength:"200" doc:"only changes of this session"`
	From    string `header:"Last-Event-ID" maxLength:"200" doc:"the id of the last event that the reader has"`
}

// Changes yields the changes after a position. If the position is empty or no longer valid, the
// first change is one of all sessions. Only sessions that the caller may view are yielded; if one is
// named, only that one.
func (s Sessions) Changes(ctx context.Context, in ChangesInput) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		ticker := time.NewTicker(feedPause)
		defer ticker.Stop()
		for at := parsePosition(in.From); ; {
			changes, now, reset, err := s.Store.State.Changes(ctx, s.Namespace, at)
			if err != nil {
				yield(Change{}, err)
				return
			}
			if reset {
				changes = []state.Change{{Number: now.Number}} // all may have changed
			}
			for _, c := range changes {
				if c.Session != "" && (in.Session != "" && c.Session != in.Session || s.may(ctx, access.View, c.Session) != nil) {
					continue
				}
				if !yield(Change{ID: fmt.Sprintf("%s.%d", now.Installation, c.Number), Session: c.Session}, nil) {
					return
				}
			}
			at = now
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}

// parsePosition reads a position. An invalid one is of no database.
func parsePosition(text string) state.Position {
	installation, number, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || installation == "" {
		return state.Position{Installation: "none"}
	}
	return state.Position{Installation: installation, Number: n}
}
