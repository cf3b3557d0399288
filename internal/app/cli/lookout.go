package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
)

// lookout polls one session.
type lookout struct {
	*backend
	session string
	now     func() time.Time
	// exists is true if the session was started or found before.
	exists bool
}

// lookout returns a lookout for a session at a backend.
func (p *backend) lookout(sessionID string, now func() time.Time) *lookout {
	return &lookout{backend: p, session: sessionID, now: now}
}

// look is the current state of the session. It has a time limit.
func (l *lookout) look(ctx context.Context) (sessionstatus.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	v, err := l.status(ctx, l.session)
	if l.base == nil && errors.Is(err, context.DeadlineExceeded) {
		err = &client.UnreachableError{URL: l.server.URL(), Err: fmt.Errorf("no answer within %s", lostAfter)}
	}
	return v, err
}

// whom is the name of what answers: Temporal or the server.
func (l *lookout) whom() string {
	if l.base == nil {
		return "the Maestro server at " + l.server.URL()
	}
	return l.temporal()
}

// lostConnection reports whether an error is only a missing answer.
func lostConnection(err error) bool {
	return temporalutil.Unreachable(err) || client.Away(err) || control.ProblemOf(err).Reason == control.NoTemporal
}
