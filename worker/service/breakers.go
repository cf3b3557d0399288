package service

import (
	"context"
	"log/slog"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/telemetry"
)

// breakers are the store's breakers. Each answer is copied to the database.
// The copy may be out of date, so a failure to write it is only logged.
type breakers struct {
	*breaker.Client
	store *store.Store
	// recorder updates metrics; nil: none.
	recorder *telemetry.Recorder
	logger   *slog.Logger
}

// Read returns a breaker after its last acknowledged change.
func (b *breakers) Read(ctx context.Context, name string) (breaker.View, error) {
	view, err := b.Client.Read(ctx, name)
	if err == nil && b.recorder != nil {
		b.recorder.Breaker(view.Status())
	}
	return view, err
}

// Report delivers the outcome of a round.
func (b *breakers) Report(ctx context.Context, r session.BreakerReport) (breaker.Answer, error) {
	return b.keep(ctx)(b.Client.Report(ctx, r))
}

// Acquire requests a lease.
func (b *breakers) Acquire(ctx context.Context, id string, given spec.Breaker, holder string) (breaker.Answer, error) {
	return b.keep(ctx)(b.Client.Acquire(ctx, id, given, holder))
}

// Renew extends a lease.
func (b *breakers) Renew(ctx context.Context, id string, given spec.Breaker, holder string) (breaker.Answer, error) {
	return b.keep(ctx)(b.Client.Renew(ctx, id, given, holder))
}

func (b *breakers) keep(ctx context.Context) func(breaker.Answer, error) (breaker.Answer, error) {
	return func(a breaker.Answer, err error) (breaker.Answer, error) {
		if err != nil {
			return a, err
		}
		if b.recorder != nil {
			b.recorder.Breaker(a.Status())
		}
		if err := b.store.State.PutBreaker(ctx, a.Status()); err != nil {
			b.logger.Warn("the store's copy of a breaker is out of date", "breaker", a.Name, "error", err)
		}
		return a, nil
	}
}
