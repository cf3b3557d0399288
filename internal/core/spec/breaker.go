package spec

import (
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Breaker are the settings of an agent's circuit breaker in a worker file. Agents with the same
// breaker name share one breaker: in one worker file their settings have to be equal; of several worker files the settings of
// the last event hold.
type Breaker struct {
	// Name identifies the breaker in its store. Agents with the same name share the breaker, and
	// must have equal settings of it. Left out, it is the agent's name.
	Name string `json:"name" yaml:"name,omitempty" jsonschema:"format=name"`
	// Threshold is how many counted failures in a row open the breaker.
	Threshold int `json:"threshold" yaml:"threshold,omitempty" jsonschema:"minimum=1,maximum=1000"`
	// Cooldown is how long the breaker is open at first. It doubles each time a probe fails.
	Cooldown textfmt.Duration `json:"cooldown" yaml:"cooldown,omitempty" between:"100ms 168h"`
	// MaxCooldown is the longest cooldown, unless the provider states a longer wait.
	MaxCooldown textfmt.Duration `json:"max_cooldown" yaml:"max_cooldown,omitempty" between:"100ms 168h"`
	// Probes is how many rounds may try the agent at the same time after the cooldown.
	Probes int `json:"probes" yaml:"probes,omitempty" jsonschema:"minimum=1,maximum=10"`
	// Counts lists the categories that count as failures. Left out (nil, as opposed to
	// empty), they are those of the failure table.
	Counts []failures.Category `json:"counts,omitempty" yaml:"counts,omitempty" jsonschema:"uniqueItems=true"`
}

// The defaults of a breaker.
const (
	DefaultThreshold   = 5
	DefaultCooldown    = textfmt.Duration(30 * time.Second)
	DefaultMaxCooldown = textfmt.Duration(15 * time.Minute)
	DefaultProbes      = 1
)

// For returns the breaker of an agent with every default filled in.
func (b Breaker) For(agent string) Breaker {
	setDefault(&b.Name, agent)
	setDefault(&b.Threshold, DefaultThreshold)
	b.Cooldown, b.MaxCooldown = waits(b.Cooldown, b.MaxCooldown, DefaultCooldown, DefaultMaxCooldown)
	setDefault(&b.Probes, DefaultProbes)
	return b
}

// WeighFailure is Weigh for a failure. A limit that ends later than any cooldown, like that of a day, is that of a model or a
// key, and others share the breaker. So only the work that has met it waits. If the request alone is above a limit, the provider
// works.
func (b Breaker) WeighFailure(f *failures.Failure) failures.Weight {
	if f.Category == failures.RateLimited && (f.Final || f.RetryAfter > b.For("").MaxCooldown) {
		return failures.Neutral
	}
	return b.Weigh(f.Category)
}

// Weigh returns how a round that ended in a failure of this category counts for the agent's
// breaker. If Counts is set, it alone lists what counts as a failure; categories that only the
// failure table counts are neutral.
func (b Breaker) Weigh(c failures.Category) failures.Weight {
	weight := failures.RuleFor(c).Breaker
	switch {
	case b.Counts == nil:
		return weight
	case slices.Contains(b.Counts, c):
		return failures.CountsAsFailure
	case weight == failures.CountsAsFailure:
		return failures.Neutral
	}
	return weight
}
