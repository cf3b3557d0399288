package control

import (
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// Kind classifies the error of an operation, and so who can correct it.
type Kind string

// The kinds of errors.
const (
	// Invalid: the input is wrong; a retry with the same input never succeeds.
	Invalid Kind = "invalid"
	// NotFound: what the input names does not exist.
	NotFound Kind = "not_found"
	// Conflict: the state does not permit the operation: a request was answered before, a session
	// has ended or runs.
	Conflict Kind = "conflict"
	// Unavailable: the operation needs Temporal, a worker or the store, which is not available.
	Unavailable Kind = "unavailable"
)

// Error is the reason why an operation changed nothing.
type Error struct {
	Kind Kind
	// Field is the name of the wrong input; empty: it is not about an input.
	Field string
	// Session is the session of the operation; empty: none.
	Session string
	err     error
}

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

func invalidf(field, format string, args ...any) error {
	return &Error{Kind: Invalid, Field: field, err: fmt.Errorf(format, args...)}
}

func notFoundf(format string, args ...any) error {
	return &Error{Kind: NotFound, err: fmt.Errorf(format, args...)}
}

func conflictf(sessionID, format string, args ...any) error {
	return &Error{Kind: Conflict, Session: sessionID, err: fmt.Errorf(format, args...)}
}

func unavailablef(format string, args ...any) error {
	return &Error{Kind: Unavailable, err: fmt.Errorf(format, args...)}
}

// LostError reports that Temporal no longer has a session: it has to be resumed from the store
// before it accepts anything.
type LostError struct{ Session string }

func (e *LostError) Error() string {
	return fmt.Sprintf("Temporal has lost session %s; resume it from the store first", e.Session)
}

// EndedError reports that a session has ended, so it accepts nothing.
type EndedError struct {
	Session string
	State   session.State
}

func (e *EndedError) Error() string {
	if e.State == session.Completed {
		return fmt.Sprintf("session %s is completed", e.Session)
	}
	return fmt.Sprintf("session %s has ended: it is %s", e.Session, e.State)
}
