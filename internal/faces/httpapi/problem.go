package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
)

// problemOf is an error of an operation as a problem document. An error that no other request can
// avoid is logged, and not sent.
func problemOf(ctx context.Context, err error) *Problem {
	known := modelOf(ctx, err)
	known.Problem = control.ProblemOf(err)
	return known
}

// Problem is a problem document with the fields that programs distinguish.
type Problem struct {
	huma.ErrorModel
	control.Problem
}

// Text says what is wrong. status is that of the answer.
func (p *Problem) Text(status int) string {
	text := cmp.Or(p.Detail, p.Title)
	if p.Kind == "" { // an input that the API refuses before the operation has it
		for _, e := range p.Errors {
			text += fmt.Sprintf("; %s %s", e.Location, e.Message)
		}
	}
	return safetext.Block(textfmt.Shorten(cmp.Or(text, http.StatusText(status)), 4000))
}

// describeProblems adds to the description of problem documents what they have besides the usual.
func describeProblems(schemas huma.Registry) {
	model := schemas.Map()["ErrorModel"]
	for name, property := range schemas.Schema(reflect.TypeFor[control.Problem](), false, "").Properties {
		model.Properties[name] = property
	}
}

// modelOf is the usual part of a problem document.
func modelOf(ctx context.Context, err error) *Problem {
	fault := func(status int, text string, details ...*huma.ErrorDetail) *Problem {
		return &Problem{ErrorModel: huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: text, Errors: details}}
	}
	var failed *control.Error
	var denied *access.DeniedError
	var tooLarge *http.MaxBytesError
	var refused *access.RefusedError
	text := safetext.Block(err.Error())
	switch {
	case errors.As(err, &failed) && failed.Kind == control.Invalid:
		return fault(http.StatusUnprocessableEntity, text, &huma.ErrorDetail{Location: failed.Field, Message: text})
	case errors.As(err, &failed):
		return fault(statusOf[failed.Kind], text)
	case errors.Is(err, access.ErrNotSignedIn):
		return fault(http.StatusUnauthorized, text)
	case errors.As(err, &denied):
		return fault(http.StatusForbidden, text)
	case errors.As(err, &refused): // by the guard, while the body was read
		return fault(refused.Status, text)
	case errors.As(err, &tooLarge):
		return fault(http.StatusRequestEntityTooLarge, "the body of the request is too large")
	case errors.Is(err, session.ErrNotFound):
		return fault(http.StatusNotFound, text)
	case temporalutil.Unreachable(err):
		return fault(http.StatusServiceUnavailable, "Temporal cannot be reached; try again")
	case ctx.Err() != nil:
		return fault(http.StatusServiceUnavailable, "the request was cancelled, or the server stops; try again")
	}
	slog.ErrorContext(ctx, "an operation of the API failed", "error", err)
	return fault(http.StatusInternalServerError, "the operation failed; the server's log has the reason")
}

var statusOf = map[control.Kind]int{
	control.NotFound:    http.StatusNotFound,
	control.Conflict:    http.StatusConflict,
	control.Unavailable: http.StatusServiceUnavailable,
}

// writeProblem answers with a problem document outside of an operation.
func writeProblem(w http.ResponseWriter, status int, text string) {
	p := &Problem{ErrorModel: huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: safetext.Line(text)}}
	p.write(w)
}

// write answers with the document.
func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}
