package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// publishedOffer is the worker's offer in the store, for new sessions.
type publishedOffer struct {
	store  *store.Store
	clock  func() time.Time
	logger *slog.Logger

	mu    sync.Mutex
	offer spec.Offer
	// withdrawn: the offer is no longer renewed.
	withdrawn bool
}

// follow changes the offer to that of a plan. It is published by the next call of publish.
func (p *publishedOffer) follow(now *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offer = now.offer(p.offer)
}

// publish writes the offer into the store.
func (p *publishedOffer) publish(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.withdrawn {
		return nil
	}
	p.offer.RenewedAt = p.clock().UTC()
	if err := p.store.State.PutOffer(ctx, p.offer); err != nil {
		return err
	}
	if err := p.store.KeepReserve(); err != nil {
		p.logger.Warn("the store has no reserve for a full disk", "error", err)
	}
	return nil
}

// compare warns if another live worker of the store defines an agent or a check differently.
func (p *publishedOffer) compare(ctx context.Context) {
	offers, err := p.store.State.Offers(ctx)
	if err != nil {
		p.logger.Warn("the offers of other workers cannot be read", "error", err)
		return
	}
	for _, difference := range spec.Differences(offers, p.clock()) {
		p.logger.Warn(difference.Message+"; sessions of a team that uses it are refused", "remedy", difference.Remedy)
	}
}

// renew publishes the offer again and again until ctx ends.
func (p *publishedOffer) renew(ctx context.Context) {
	ticker := time.NewTicker(spec.OfferRenewal)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := p.publish(ctx); err != nil {
				p.logger.Warn("the worker's offer could not be renewed; new sessions may not use it", "error", err)
			}
		}
	}
}

// withdraw removes the offer, also after the end of the worker's context.
func (p *publishedOffer) withdraw() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.withdrawn = true
	return p.store.State.RemoveOffer(context.Background(), p.offer.Worker)
}
