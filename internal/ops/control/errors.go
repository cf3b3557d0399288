package control

import (
	"errors"
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

// Reason is a cause that callers distinguish in addition to the kind.
type Reason string

// The reasons.
const (
	// UnknownSession: there is no such session.
	UnknownSession Reason = "unknown_session"
	// Lost: Temporal no longer has the session. It has to be resumed from the store before it accepts anything.
	Lost Reason = "lost"
	// Ended: the session has ended, so it accepts nothing.
	Ended Reason = "ended"
	// Slow: the session accepted a message, and has not applied it in time. It will.
	Slow Reason = "slow"
	// AtWork: the session is at work, so its work cannot be changed.
	AtWork Reason = "at_work"
	// AwaitsAnswer: the session waits for answers, which a resume does not give.
	AwaitsAnswer Reason = "waits"
	// NoTemporal: Temporal cannot be reached now.
	NoTemporal Reason = "temporal_away"
)

// Problem is what callers distinguish of an error of an operation, as a part of a document.
type Problem struct {
	Kind Kind `json:"kind,omitempty" doc:"what is wrong: invalid, not_found, conflict or unavailable"`
	// Field is the name of the wrong input; empty: it is not about an input.
	Field string `json:"field,omitempty" doc:"the wrong input"`
	// Session is the session of the operation; empty: none.
	Session string `json:"session,omitempty" doc:"the session that it is about"`
	Reason  Reason `json:"reason,omitempty" doc:"unknown_session, lost, ended, slow, at_work, waits or temporal_away; left out: another"`
	// State is the session's, with the reasons Ended and AtWork.
	State session.State `json:"state,omitempty" doc:"the state of a session that has ended, or is at work"`
}

// Error is the reason why an operation changed nothing.
type Error struct {
	Problem
	err error
}

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// Err is the error of a document with this text.
func (p Problem) Err(text string) error { return &Error{p, errors.New(text)} }

// ProblemOf is what callers distinguish of an error; the zero value if it is not an error of an operation.
func ProblemOf(err error) Problem {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.Problem
	}
	return Problem{}
}

// invalid is the error of a wrong input; nil without an error.
func invalid(field string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Problem{Kind: Invalid, Field: field}, err}
}

func invalidf(field, format string, args ...any) error {
	return invalid(field, fmt.Errorf(format, args...))
}

func notFoundf(format string, args ...any) error {
	return &Error{Problem{Kind: NotFound}, fmt.Errorf(format, args...)}
}

func conflictf(sessionID, format string, args ...any) error {
	return &Error{Problem{Kind: Conflict, Session: sessionID}, fmt.Errorf(format, args...)}
}

func unavailablef(format string, args ...any) error {
	return &Error{Problem{Kind: Unavailable}, fmt.Errorf(format, args...)}
}

// lostError reports that Temporal no longer has a session.
func lostError(sessionID string) error {
	return &Error{
		Problem{Kind: Conflict, Session: sessionID, Reason: Lost},
		fmt.Errorf("Temporal has lost session %s; resume it from the store first", sessionID), //nolint:staticcheck // a name
	}
}

// endedError reports that a session has ended, and how.
func endedError(sessionID string, how session.State) error {
	text := "session %s has ended: it is %s"
	if how == session.Completed {
		text = "session %s is %s"
	}
	return &Error{Problem{Kind: Conflict, Session: sessionID, Reason: Ended, State: how}, fmt.Errorf(text, sessionID, how)}
}
