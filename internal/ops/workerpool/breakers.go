package workerpool

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
)

// Breaker is a breaker and its agents.
type Breaker struct {
	session.BreakerStatus
	// Agents are those of the live workers that have the breaker.
	Agents []string `json:"agents"`
}

// Breakers lists the breakers of the store: those that have counted something, and those of the agents of live workers.
func Breakers(ctx context.Context, s *store.Store, now time.Time) ([]Breaker, error) {
	stored, err := s.State.Breakers(ctx)
	if err != nil {
		return nil, err
	}
	behind, err := agentsBehind(ctx, s, now)
	if err != nil {
		return nil, err
	}
	known := map[string]session.BreakerStatus{}
	for name := range behind {
		known[name] = session.NewBreaker(name)
	}
	for _, b := range stored {
		known[b.Name] = b
	}
	out := []Breaker{}
	for name, b := range known {
		out = append(out, Breaker{b.At(now), append([]string{}, behind[name]...)})
	}
	slices.SortFunc(out, func(x, y Breaker) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
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
