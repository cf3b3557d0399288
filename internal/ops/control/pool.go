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
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return workerpool.Roster{}, err
	}
	return workerpool.Look(ctx, p.Store, p.conn(), spec.Team{}, p.Now())
}

// BreakerList is the breakers of a store, sorted by name.
type BreakerList struct {
	Breakers []workerpool.Breaker `json:"breakers"`
}

// Breakers lists the breakers of the store's agents.
func (p Pool) Breakers(ctx context.Context) (BreakerList, error) {
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return BreakerList{}, err
	}
	all, err := workerpool.Breakers(ctx, p.Store, p.Now())
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
	return p.setBreaker(ctx, name, event, breaker.TripRequest{By: actor(ctx), Why: r.Why, For: r.For})
}

// Reset closes a breaker and sets its count of failures to zero.
func (p Pool) Reset(ctx context.Context, name string, r Reset) (workerpool.Breaker, error) {
	event := access.Event{Action: "breaker.reset", Subject: name, Detail: r.Why}
	return p.setBreaker(ctx, name, event, breaker.ResetRequest{By: actor(ctx), Why: r.Why})
}

// setBreaker changes a breaker. A repetition with the same id changes nothing.
func (p Pool) setBreaker(ctx context.Context, name string, event access.Event,
	e breaker.Event,
) (changed workerpool.Breaker, err error) {
	id := cmp.Or(changeID(ctx, event), rand.Text())
	err = p.Audit.Change(ctx, access.Operate, event, func(ctx context.Context) error {
		if changed, err = p.Breaker(ctx, name); err != nil {
			return err
		}
		after, err := (&breaker.Breakers{State: p.Store.State}).Set(ctx, id, name, e)
		changed.BreakerStatus = after.At(p.Now())
		return err
	})
	return changed, err
}
