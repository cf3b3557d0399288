package httpapi

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/workerpool"
)

// ofBreaker is the input of an operation on a breaker.
type ofBreaker struct {
	Name string `path:"name" maxLength:"100" doc:"the breaker's name"`
}

// tripInput says why a breaker is opened, and for how long.
type tripInput struct {
	Name string `path:"name" maxLength:"100" doc:"the breaker's name"`
	Body struct {
		Why string           `json:"why" minLength:"1" maxLength:"1000" doc:"the reason, shown where sessions wait"`
		For textfmt.Duration `json:"for,omitempty" doc:"how long; left out: until it is reset"`
	}
}

// resetInput says why a breaker is closed.
type resetInput struct {
	Name string `path:"name" maxLength:"100" doc:"the breaker's name"`
	Body struct {
		Why string `json:"why,omitempty" maxLength:"1000" doc:"the reason"`
	}
}

// breakerList is the breakers of a store.
type breakerList struct {
	Breakers []workerpool.Breaker `json:"breakers"`
}

func pool(api huma.API, p control.Pool) {
	register(api, operation("GET /workers", "list-workers", "List workers, their agents and queues"),
		func(ctx context.Context, _ *none) (workerpool.Roster, error) { return p.Workers(ctx) })
	register(api, operation("GET /breakers", "list-breakers", "List the breakers of agents"),
		func(ctx context.Context, _ *none) (breakerList, error) {
			all, err := p.Breakers(ctx)
			return breakerList{append([]workerpool.Breaker{}, all...)}, err
		})
	register(api, operation("GET /breakers/{name}", "read-breaker", "Read a breaker"),
		func(ctx context.Context, in *ofBreaker) (workerpool.Breaker, error) { return p.Breaker(ctx, in.Name) })
	register(api, operation("POST /breakers/{name}/trip", "trip-breaker", "Open a breaker: rounds of its agents wait"),
		func(ctx context.Context, in *tripInput) (workerpool.Breaker, error) {
			b, err := p.Trip(ctx, requestID(p.Now()), in.Name, breaker.TripRequest{Why: in.Body.Why, For: in.Body.For})
			return b, ignoreStaleCopy(err)
		})
	register(api, operation("POST /breakers/{name}/reset", "reset-breaker", "Close a breaker: rounds of its agents continue"),
		func(ctx context.Context, in *resetInput) (workerpool.Breaker, error) {
			b, err := p.Reset(ctx, requestID(p.Now()), in.Name, breaker.ResetRequest{Why: in.Body.Why})
			return b, ignoreStaleCopy(err)
		})
}

// requestID names a change that is made once.
func requestID(now time.Time) string { return "api/" + now.UTC().Format(time.RFC3339Nano) }

// ignoreStaleCopy leaves out an error that concerns the store's copy only: the breaker has changed.
func ignoreStaleCopy(err error) error {
	if control.IsStaleCopy(err) {
		return nil
	}
	return err
}
