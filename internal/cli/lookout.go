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

// lookout polls one session.
type lookout struct {
	*plane
	session string
	now     func() time.Time
	// exists: the session was started or found before.
	exists bool
	// watcher reads from this process; nil with a server, for which progress is the newest answer.
	watcher  *sessionstatus.Watcher
	progress control.Progress
}

// lookout returns a lookout for a session of the plane.
func (p *plane) lookout(sessionID string, now func() time.Time) *lookout {
	l := &lookout{plane: p, session: sessionID, now: now}
	if p.base != nil {
		l.watcher = watcherOf(p.base, sessionID)
	}
	return l
}

// look is the current state of the session. It has a time limit.
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

// whom is the name of what answers: Temporal or the server.
func (l *lookout) whom() string {
	if l.watcher == nil {
		return l.where()
	}
	return l.temporal()
}

// lostConnection reports whether an error is only a missing answer.
func lostConnection(err error) bool {
	return temporalutil.Lost(err) || client.Away(err) || errors.Is(err, control.ErrNoTemporal)
}

// readProgress copies a server's answer about the session's work.
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
