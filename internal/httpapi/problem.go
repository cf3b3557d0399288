package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/temporalutil"
)

// problemOf is an error of an operation as a problem document. What is nobody's to mend by another
// request is logged, and not told.
func problemOf(ctx context.Context, err error) error {
	var failed *control.Error
	var denied *access.DeniedError
	var tooLarge *http.MaxBytesError
	text := safetext.Block(err.Error())
	switch {
	case errors.As(err, &failed) && failed.Kind == control.Invalid:
		return huma.NewError(http.StatusUnprocessableEntity, text, &huma.ErrorDetail{Location: failed.Field, Message: text})
	case errors.As(err, &failed):
		return huma.NewError(statusOf[failed.Kind], text)
	case errors.Is(err, access.ErrNobody):
		return huma.NewError(http.StatusUnauthorized, text)
	case errors.As(err, &denied):
		return huma.NewError(http.StatusForbidden, text)
	case errors.As(err, &tooLarge):
		return huma.NewError(http.StatusRequestEntityTooLarge, "the body of the request is too large")
	case errors.Is(err, session.ErrNotFound):
		return huma.NewError(http.StatusNotFound, text)
	case temporalutil.Lost(err):
		return huma.NewError(http.StatusServiceUnavailable, "Temporal cannot be reached; try again")
	case ctx.Err() != nil:
		return huma.NewError(http.StatusServiceUnavailable, "the request was cancelled, or the server stops; try again")
	}
	slog.ErrorContext(ctx, "an operation of the API failed", "error", err)
	return huma.NewError(http.StatusInternalServerError, "the operation failed; the server's log says why")
}

var statusOf = map[control.Kind]int{
	control.NotFound:    http.StatusNotFound,
	control.Conflict:    http.StatusConflict,
	control.Unavailable: http.StatusServiceUnavailable,
}

// writeProblem answers with a problem document outside of an operation.
func writeProblem(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: safetext.Line(text)})
}
