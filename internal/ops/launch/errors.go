package launch

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotAdmitted reports that a session is started, and that no worker has admitted it in time. It
// runs as soon as one does.
var ErrNotAdmitted = errors.New("no worker admitted the session")

// NoCheckpointError reports that a session has no readable checkpoint.
type NoCheckpointError struct {
	// Cause is the error of its checkpoints; nil if there are none.
	Cause error
}

func (e *NoCheckpointError) Error() string { return "no readable checkpoint" }

func (e *NoCheckpointError) Unwrap() error { return e.Cause }

// TakenError reports that a session with this id exists.
type TakenError struct {
	Session string
	// By is where the existing session is.
	By string
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("session %q already exists in %s", e.Session, e.By)
}

// RunningError reports that another process has resumed a session at the same time.
type RunningError struct{ Session string }

func (e *RunningError) Error() string {
	return fmt.Sprintf("session %s is already running: another command started it", e.Session)
}

// RefusedError is the reason why a session cannot start.
type RefusedError struct{ Problems []string }

func (e *RefusedError) Error() string {
	if len(e.Problems) == 1 {
		return "the session cannot start: " + e.Problems[0]
	}
	return "the session cannot start:\n  " + strings.Join(e.Problems, "\n  ")
}
