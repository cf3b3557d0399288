package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/client"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/temporalutil"
)

// lookout looks at one session again and again.
type lookout struct {
	*plane
	session string
	now     func() time.Time
	// exists: the session was started or found before.
	exists bool
	// watcher looks from this process; nil with a server, of which progress is the newest answer.
	watcher  *sessionstatus.Watcher
	progress control.Progress
}

// lookout looks at a session of the plane.
func (p *plane) lookout(sessionID string, now func() time.Time) *lookout {
	l := &lookout{plane: p, session: sessionID, now: now}
	if p.base != nil {
		l.watcher = watcherOf(p.base, sessionID)
	}
	return l
}

// look is what is known of the session now. It is given up after a while.
func (l *lookout) look(ctx context.Context) (sessionstatus.Session, error) {
	if l.watcher != nil {
		return l.watcher.LookWithin(ctx, lostAfter)
	}
	ctx, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	p, err := l.sessions.Progress(ctx, l.session)
	switch {
	case err == nil:
		l.progress = p
	case errors.Is(err, context.DeadlineExceeded):
		err = &client.UnreachableError{URL: l.server, Err: fmt.Errorf("no answer within %s", lostAfter)}
	}
	return p.Session, err
}

// whom names who answers.
func (l *lookout) whom() string {
	if l.watcher == nil {
		return l.where()
	}
	return l.temporal()
}

// lostConnection reports whether an error is only that nobody answers.
func lostConnection(err error) bool {
	return temporalutil.Lost(err) || client.Away(err) || errors.Is(err, control.ErrNoTemporal)
}

// readProgress takes over what a server has said of the session's work.
func (c *sessionDetail) readProgress() {
	c.work = map[spec.AssignmentID]workDone{}
	for _, p := range c.progress.Work {
		c.work[p.AssignmentID] = workDoneIn(p)
	}
	c.checkpoint.Reworks = c.progress.Reworks
	if len(c.progress.Needs) > 0 {
		c.needs = c.progress.Needs
	}
}
