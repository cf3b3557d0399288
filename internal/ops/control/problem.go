package control

import (
	"errors"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// ErrNoTemporal reports that Temporal cannot be reached now.
var ErrNoTemporal error = noTemporalError{}

type noTemporalError struct{}

func (noTemporalError) Error() string { return "Temporal cannot be reached" }

// The reasons of problems: causes that callers distinguish in addition to the kind.
const (
	reasonUnknown    = "unknown_session"
	reasonLost       = "lost"
	reasonEnded      = "ended"
	reasonSlow       = "slow"
	reasonAtWork     = "at_work"
	reasonWaits      = "waits"
	reasonNoTemporal = "temporal_away"
)

// Problem is an error of an operation as a document, in addition to its text.
type Problem struct {
	Kind Kind `json:"kind,omitempty" doc:"what is wrong: invalid, not_found, conflict or unavailable"`
	// Field is the name of the wrong input.
	Field   string `json:"field,omitempty" doc:"the wrong input"`
	Session string `json:"session,omitempty" doc:"the session that it is about"`
	// Reason is one of the causes that callers distinguish.
	Reason string `json:"reason,omitempty" doc:"unknown_session, lost, ended, slow, at_work, waits or temporal_away; left out: another"`
	// State is that of a session that has ended, or is at work.
	State session.State `json:"state,omitempty" doc:"the state of a session that has ended, or is at work"`
}

// ProblemOf is an error as a document; the zero value if it is not an error of an operation.
func ProblemOf(err error) Problem {
	var failed *Error
	if !errors.As(err, &failed) {
		return Problem{}
	}
	p := Problem{Kind: failed.Kind, Field: failed.Field, Session: failed.Session}
	var unknown *NotStoredError
	var lost *LostError
	var ended *EndedError
	var slow *SlowError
	var atWork *NotEndedError
	var waits *WaitsError
	switch {
	case errors.As(err, &unknown), errors.Is(err, sessionstatus.ErrUnknown):
		p.Reason = reasonUnknown
	case errors.As(err, &lost):
		p.Reason = reasonLost
	case errors.As(err, &ended):
		p.Reason, p.State = reasonEnded, ended.State
	case errors.As(err, &slow):
		p.Reason = reasonSlow
	case errors.As(err, &atWork):
		p.Reason, p.State = reasonAtWork, atWork.State
	case errors.As(err, &waits):
		p.Reason = reasonWaits
	case errors.Is(err, ErrNoTemporal):
		p.Reason = reasonNoTemporal
	}
	return p
}

// Err is the error of a document with this text.
func (p Problem) Err(text string) error {
	cause := errors.New(text)
	switch p.Reason {
	case reasonUnknown:
		cause = sessionstatus.ErrUnknown
	case reasonLost:
		cause = &LostError{p.Session}
	case reasonEnded:
		cause = &EndedError{p.Session, p.State}
	case reasonSlow:
		cause = &SlowError{p.Session}
	case reasonAtWork:
		cause = &NotEndedError{p.Session, p.State}
	case reasonWaits:
		cause = &WaitsError{Session: p.Session}
	case reasonNoTemporal:
		cause = ErrNoTemporal
	}
	return &Error{Kind: p.Kind, Field: p.Field, Session: p.Session, err: cause}
}
