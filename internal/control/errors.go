package control

import (
	"fmt"

	"github.com/maestro-hive/maestro/internal/session"
)

// Kind says what is wrong with an operation, and so who can mend it.
type Kind string

// The kinds of errors.
const (
	// Invalid: the input is wrong; the same input never succeeds.
	Invalid Kind = "invalid"
	// NotFound: what the input names does not exist.
	NotFound Kind = "not_found"
	// Conflict: the state is not the one that the input is for: a request was answered
	// before, a session has ended or runs.
	Conflict Kind = "conflict"
	// Unavailable: Temporal, a worker or the store that it takes is not at hand.
	Unavailable Kind = "unavailable"
)

// Error says why an operation changed nothing.
type Error struct {
	Kind Kind
	// Field names the wrong input; empty: none is to blame.
	Field string
	// Session is the one that the operation is about; empty: none.
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

// LostError says that Temporal no longer has a session: it has to be resumed from the store
// before it takes anything.
type LostError struct{ Session string }

func (e *LostError) Error() string {
	return fmt.Sprintf("Temporal has lost session %s; resume it from the store first", e.Session)
}

// EndedError says that a session has ended, and so takes nothing any more.
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
