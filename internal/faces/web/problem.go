package web

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// problem is why a page cannot be shown, or a form did nothing.
type problem struct {
	Status int
	Title  string
	Text   string
	// Command is one that helps; empty: none does.
	Command string
	// Back is the page to go on from; empty: the one that the route names.
	Back string
}

func (p *problem) Error() string { return p.Text }

// wrongInput says what is wrong with a form.
func wrongInput(title string, err error) error {
	return &problem{Status: http.StatusUnprocessableEntity, Title: title, Text: err.Error()}
}

// failedWith reports whether an operation failed with an error of one of these kinds.
func failedWith(err error, kinds ...control.Kind) bool {
	e, known := errors.AsType[*control.Error](err)
	return known && slices.Contains(kinds, e.Kind)
}

// isDenied reports whether the person who looks may not do something.
func isDenied(err error) bool {
	_, denied := errors.AsType[*access.DeniedError](err)
	return denied
}

// unavailable reports whether an operation failed only because something is not at hand, or
// not there yet: the rest of a page is shown without it.
func unavailable(err error) bool {
	return failedWith(err, control.Unavailable, control.NotFound, control.Conflict)
}

// problemOf says what an error means to a person.
func problemOf(err error) *problem {
	if p, known := errors.AsType[*problem](err); known {
		return p
	}
	p := &problem{Status: http.StatusInternalServerError, Title: "This did not work", Text: err.Error()}
	switch {
	case isDenied(err):
		p.Status, p.Title = http.StatusForbidden, "You may not do this"
	case failedWith(err, control.Invalid):
		p.Status, p.Title = http.StatusUnprocessableEntity, "Please correct the input"
		if e, _ := errors.AsType[*control.Error](err); e.Field != "" {
			p.Text = e.Field + ": " + p.Text
		}
	case errors.Is(err, session.ErrNotFound):
		p.Status, p.Title, p.Command, p.Back = http.StatusNotFound, "Not found", "maestro list", "/sessions"
	case failedWith(err, control.NotFound):
		p.Status, p.Title, p.Command = http.StatusNotFound, "Not found", "maestro list"
	case failedWith(err, control.Conflict):
		p.Status, p.Title = http.StatusConflict, "The state has changed"
		if lost := control.ProblemOf(err); lost.Reason == control.Lost {
			p.Command = "maestro resume " + lost.Session
		}
	case failedWith(err, control.Unavailable):
		p.Status, p.Title, p.Command = http.StatusServiceUnavailable, "Not available now", "maestro doctor"
	default:
		p.Command = "maestro doctor"
	}
	return p
}

// may reports whether the person who looks may do something.
func may(ctx context.Context, p access.Permission, team string) bool {
	return access.Check(ctx, p, team) == nil
}
