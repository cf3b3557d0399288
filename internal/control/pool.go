package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/workerpool"
)

// Pool is the workers of a store, their agents and the agents' breakers.
type Pool struct{ *Base }

// Workers lists workers, agents and queues.
func (p Pool) Workers(ctx context.Context) (workerpool.Roster, error) {
	s, err := p.stored()
	if err == nil {
		err = access.Check(ctx, access.View, access.NoTeam)
	}
	if err != nil {
		return workerpool.Roster{}, err
	}
	return workerpool.Look(ctx, s, p.conn(), spec.Team{}, p.Now())
}

// Breakers lists the breakers of the store's agents.
func (p Pool) Breakers(ctx context.Context) ([]workerpool.Breaker, error) {
	s, err := p.stored()
	if err == nil {
		err = access.Check(ctx, access.View, access.NoTeam)
	}
	if err != nil {
		return nil, err
	}
	return workerpool.Breakers(ctx, s, p.conn(), p.Now())
}

// Breaker reads one breaker.
func (p Pool) Breaker(ctx context.Context, name string) (workerpool.Breaker, error) {
	if err := spec.CheckName(name); err != nil {
		return workerpool.Breaker{}, &Error{Kind: Invalid, Field: "name", err: err}
	}
	known, err := p.Breakers(ctx)
	if err != nil {
		return workerpool.Breaker{}, err
	}
	var names []string
	for _, b := range known {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return workerpool.Breaker{}, notFoundf("breaker %q not found in the store in %s%s", name, p.Store.Dir(), textfmt.DidYouMean(name, names))
}

// Trip opens a breaker: rounds of its agents wait. id makes the request idempotent.
func (p Pool) Trip(ctx context.Context, id, name string, r breaker.TripRequest) (workerpool.Breaker, error) {
	switch {
	case strings.TrimSpace(r.Why) == "":
		return workerpool.Breaker{}, invalidf("why", "missing; give the reason: it is shown wherever sessions wait for breaker %s", name)
	case r.For < 0:
		return workerpool.Breaker{}, invalidf("for", "%s is not positive; omit it to keep the breaker open until it is reset", time.Duration(r.For))
	}
	r.By = cmp.Or(r.By, actor(ctx))
	event := access.Event{Action: "breaker.trip", Subject: name, Detail: r.Why}
	return p.setBreaker(ctx, name, event, func(ctx context.Context, client *breaker.Client) (breaker.Answer, error) {
		return client.Trip(ctx, id, name, r)
	})
}

// Reset closes a breaker and sets its count of failures to zero. id makes the request idempotent.
func (p Pool) Reset(ctx context.Context, id, name string, r breaker.ResetRequest) (workerpool.Breaker, error) {
	r.By = cmp.Or(r.By, actor(ctx))
	event := access.Event{Action: "breaker.reset", Subject: name, Detail: r.Why}
	return p.setBreaker(ctx, name, event, func(ctx context.Context, client *breaker.Client) (breaker.Answer, error) {
		return client.Reset(ctx, id, name, r)
	})
}

// StaleCopyError reports that a breaker was changed, and that the store's copy of it was not.
type StaleCopyError struct {
	Name string
	Err  error
}

func (e *StaleCopyError) Error() string {
	return fmt.Sprintf("the store's copy of breaker %s is out of date: %v", e.Name, e.Err)
}

// setBreaker changes a breaker. With a [*StaleCopyError] the change was made.
func (p Pool) setBreaker(ctx context.Context, name string, event access.Event, change func(context.Context, *breaker.Client) (breaker.Answer, error)) (workerpool.Breaker, error) {
	var answer breaker.Answer
	var before workerpool.Breaker
	err := p.Audit.Change(ctx, access.Operate, event, func(ctx context.Context) error {
		conn, err := p.connected()
		if err != nil {
			return err
		}
		if before, err = p.Breaker(ctx, name); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, AnswerTimeout)
		defer cancel()
		answer, err = change(bounded, &breaker.Client{Temporal: conn.Client, Store: p.Store.ID()})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case unanswered(bounded, err):
			return unavailablef("no worker answered for breaker %s within %s, and it may still process this request", name, AnswerTimeout)
		case err != nil:
			return &Error{Kind: Conflict, err: fmt.Errorf("breaker %s: %w", name, err)}
		}
		return nil
	})
	if err != nil {
		return before, err
	}
	after := workerpool.Breaker{BreakerStatus: answer.Status().At(p.Now()), Agents: before.Agents}
	if err := p.Store.State.PutBreaker(ctx, answer.Status()); err != nil {
		return after, &StaleCopyError{name, err}
	}
	return after, nil
}

// IsStaleCopy reports whether the change was made, and only the store's copy is out of date.
func IsStaleCopy(err error) bool {
	var stale *StaleCopyError
	return errors.As(err, &stale)
}
