package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/workerpool"
)

// Pool is the workers of a store, their agents and the agents' breakers.
type Pool struct{ *Base }

// Workers lists workers, agents and queues.
func (p Pool) Workers(ctx context.Context) (workerpool.Roster, error) {
	s, err := p.viewable(ctx, access.NoTeam)
	if err != nil {
		return workerpool.Roster{}, err
	}
	return workerpool.Look(ctx, s, p.conn(), spec.Team{}, p.Now())
}

// BreakerList is the breakers of a store, sorted by name.
type BreakerList struct {
	Breakers []workerpool.Breaker `json:"breakers"`
}

// Breakers lists the breakers of the store's agents.
func (p Pool) Breakers(ctx context.Context) (BreakerList, error) {
	s, err := p.viewable(ctx, access.NoTeam)
	if err != nil {
		return BreakerList{}, err
	}
	all, err := workerpool.Breakers(ctx, s, p.conn(), p.Now())
	return BreakerList{all}, err
}

// Breaker reads one breaker.
func (p Pool) Breaker(ctx context.Context, name string) (workerpool.Breaker, error) {
	if err := invalid("name", spec.CheckName(name)); err != nil {
		return workerpool.Breaker{}, err
	}
	known, err := p.Breakers(ctx)
	if err != nil {
		return workerpool.Breaker{}, err
	}
	var names []string
	for _, b := range known.Breakers {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return workerpool.Breaker{}, notFoundf("breaker %q not found in the store in %s%s", name, p.Store.Dir(),
		textfmt.DidYouMean(name, names))
}

// Trip says why a breaker is opened, and for how long.
type Trip struct {
	Why string           `json:"why" minLength:"1" maxLength:"1000" doc:"the reason, shown where sessions wait"`
	For textfmt.Duration `json:"for,omitempty" doc:"how long; left out: until it is reset"`
}

// Reset says why a breaker is closed.
type Reset struct {
	Why string `json:"why,omitempty" maxLength:"1000" doc:"the reason"`
}

// Trip opens a breaker: rounds of its agents wait.
func (p Pool) Trip(ctx context.Context, name string, r Trip) (workerpool.Breaker, error) {
	switch {
	case strings.TrimSpace(r.Why) == "":
		return workerpool.Breaker{}, invalidf("why", "missing; give the reason: it is shown wherever sessions wait for breaker %s",
			name)
	case r.For < 0:
		return workerpool.Breaker{}, invalidf("for", "%s is not positive; omit it to keep the breaker open until it is reset",
			time.Duration(r.For))
	}
	event := access.Event{Action: "breaker.trip", Subject: name, Detail: r.Why}
	return p.setBreaker(ctx, name, event, func(ctx context.Context, client *breaker.Client, id string) (breaker.Answer, error) {
		return client.Trip(ctx, id, name, breaker.TripRequest{By: actor(ctx), Why: r.Why, For: r.For})
	})
}

// Reset closes a breaker and sets its count of failures to zero.
func (p Pool) Reset(ctx context.Context, name string, r Reset) (workerpool.Breaker, error) {
	event := access.Event{Action: "breaker.reset", Subject: name, Detail: r.Why}
	return p.setBreaker(ctx, name, event, func(ctx context.Context, client *breaker.Client, id string) (breaker.Answer, error) {
		return client.Reset(ctx, id, name, breaker.ResetRequest{By: actor(ctx), Why: r.Why})
	})
}

// setBreaker changes a breaker. The id of the change is that of each try.
func (p Pool) setBreaker(ctx context.Context, name string, event access.Event, change func(context.Context, *breaker.Client,
	string) (breaker.Answer, error),
) (workerpool.Breaker, error) {
	id := cmp.Or(changeID(ctx, event), rand.Text())
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
		answer, err = change(bounded, &breaker.Client{Temporal: conn.Client, Store: p.Store.ID()}, id)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case unanswered(bounded, err):
			return unavailablef("no worker answered for breaker %s within %s, and it may still process this request", name, AnswerTimeout)
		case err != nil:
			return conflictf("", "breaker %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return before, err
	}
	_ = p.Store.State.PutBreaker(ctx, answer.Status()) // the change is made; workers write this copy, too
	return workerpool.Breaker{BreakerStatus: answer.Status().At(p.Now()), Agents: before.Agents}, nil
}
