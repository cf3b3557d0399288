package workerpool

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

// Breaker is a breaker and its agents.
type Breaker struct {
	session.BreakerStatus
	// Agents are those of the live workers that have the breaker.
	Agents []string `json:"agents"`
}

// Breakers gathers the store's breakers: Temporal's state, else the store's
// copy, else that of the workers that offer them. conn is nil where Temporal
// cannot be reached.
func Breakers(ctx context.Context, s *store.Store, conn *temporalutil.Connection, now time.Time) ([]Breaker, error) {
	known := map[string]session.BreakerStatus{}
	stored, err := s.State.Breakers(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range stored {
		known[b.Name] = b
	}
	behind, err := agentsBehind(ctx, s, now)
	if err != nil {
		return nil, err
	}
	for name := range behind {
		if _, ok := known[name]; !ok {
			known[name] = breaker.View{Name: name, Settings: spec.Breaker{}.For(name)}.Status()
		}
	}
	if conn != nil {
		if err := addRunning(ctx, &breaker.Client{Temporal: conn.Client, Store: s.ID()}, known); err != nil {
			return nil, err
		}
	}
	out := []Breaker{}
	for name, b := range known {
		out = append(out, Breaker{b.At(now), append([]string{}, behind[name]...)})
	}
	slices.SortFunc(out, func(x, y Breaker) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// addRunning overlays Temporal's state on the store's.
func addRunning(ctx context.Context, c *breaker.Client, known map[string]session.BreakerStatus) error {
	views, err := c.List(ctx)
	if err != nil {
		return err
	}
	for _, view := range views {
		known[view.Name] = view.Status()
	}
	for name := range known { // a listing lags behind; a look at one does not
		view, err := c.Read(ctx, name)
		if err != nil {
			return err
		}
		if status := view.Status(); !view.Since.IsZero() {
			known[name] = status
		} else if known[name].State != session.BreakerClosed || known[name].Failures > 0 {
			status.Settings = known[name].Settings
			known[name] = status // it does not run any more, which means closed
		}
	}
	return nil
}

// agentsBehind lists, by breaker, the agents of live workers.
func agentsBehind(ctx context.Context, s *store.Store, now time.Time) (map[string][]string, error) {
	offers, err := s.State.Offers(ctx)
	if err != nil {
		return nil, err
	}
	behind := map[string][]string{}
	for _, o := range offers {
		if !o.Live(now) {
			continue
		}
		for name, offered := range o.Agents {
			if offered.Breaker != "" && !slices.Contains(behind[offered.Breaker], name) {
				behind[offered.Breaker] = append(behind[offered.Breaker], name)
			}
		}
	}
	for _, agents := range behind {
		slices.Sort(agents)
	}
	return behind, nil
}
