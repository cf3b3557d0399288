package breaker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Breakers reads and changes the breakers of an installation. Each is a row of the database, and each event one transaction, so
// a breaker is as durable as the rounds that it counts. Times are those of the database's clock. Errors are those of the state.
type Breakers struct {
	State *state.DB
	// Changed is called with the state after each change; may be nil.
	Changed func(to session.BreakerStatus)
}

// Answer is the effect of an event, and the breaker after it.
type Answer struct {
	Effect Effect
	session.BreakerStatus
}

// Read returns a breaker. One without a row has never failed: it is closed.
func (b *Breakers) Read(ctx context.Context, name string) (session.BreakerStatus, error) {
	s, err := b.State.Breaker(ctx, name)
	if errors.Is(err, state.ErrNotFound) {
		return session.NewBreaker(name), nil
	}
	return s, err
}

// Report counts the outcome of a round, once for each id. An ordinary success changes only a breaker that has counted failures,
// so most rounds write nothing.
func (b *Breakers) Report(ctx context.Context, r session.BreakerReport) (Answer, error) {
	if r.Outcome == failures.CountsAsSuccess && r.Holder == "" {
		s, err := b.Read(ctx, r.Breaker.Name)
		if _, effect := Apply(s, r, time.Time{}, 0); err != nil || effect == Ignored { // whatever the time is
			return Answer{Ignored, s}, err
		}
	}
	return b.apply(ctx, r.Breaker.Name, r.ID, r)
}

// Acquire requests a permission for a round. A holder never has more than one lease.
func (b *Breakers) Acquire(ctx context.Context, set spec.Breaker, holder string) (Answer, error) {
	return b.apply(ctx, set.Name, "", AcquireRequest{Holder: holder, Breaker: set})
}

// Renew extends a lease; [Refused] if it has expired.
func (b *Breakers) Renew(ctx context.Context, set spec.Breaker, holder string) (Answer, error) {
	return b.apply(ctx, set.Name, "", RenewRequest{Holder: holder})
}

// Set opens or closes a breaker by hand: e is a [TripRequest] or a [ResetRequest]. The id makes a repetition harmless.
func (b *Breakers) Set(ctx context.Context, id, name string, e Event) (session.BreakerStatus, error) {
	answer, err := b.apply(ctx, name, id, e)
	return answer.BreakerStatus, err
}

// apply applies an event, unless its id was applied before. The id's hash also spreads cooldowns.
func (b *Breakers) apply(ctx context.Context, name, id string, e Event) (answer Answer, err error) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id)) // never fails
	random := float64(hash.Sum64()>>11) / (1 << 53)
	err = b.State.ChangeBreaker(ctx, name, id, func(s session.BreakerStatus, now time.Time) (session.BreakerStatus, bool) {
		answer.BreakerStatus, answer.Effect = Apply(s, e, now, random)
		return answer.BreakerStatus, answer.Effect == Applied || answer.Effect == Leased
	})
	if errors.Is(err, state.ErrRepeated) {
		answer.Effect = Ignored
		answer.BreakerStatus, err = b.Read(ctx, name)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("breaker %s: %w", name, err)
	}
	if b.Changed != nil {
		b.Changed(answer.BreakerStatus)
	}
	return answer, nil
}
