package service

import (
	"context"
	"sync"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
)

// publishedOffer is the worker's offer in the store, for new sessions.
type publishedOffer struct {
	mu sync.Mutex
	spec.Offer
	// withdrawn: the offer is no longer renewed.
	withdrawn bool
}

// follow changes the offer to that of a plan. It is published by the next call of publish.
func (o *publishedOffer) follow(p *plan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Agents, o.Checks, o.Isolation = p.set.OfferedAgents(), p.set.OfferedChecks(), p.set.Isolation()
	o.Jira, o.Webhook, o.WebUI, o.Work = p.tickets != nil, p.hook != nil, p.webUI, p.workDirs.Root()
}

// publish writes the offer into the store.
func (w *Worker) publish(ctx context.Context) error {
	w.offer.mu.Lock()
	defer w.offer.mu.Unlock()
	if w.offer.withdrawn {
		return nil
	}
	w.offer.RenewedAt = w.Clock().UTC()
	if left, err := diskspace.Of(w.store.Dir()); err == nil {
		w.offer.Disk = spec.Disk{FreeBytes: left.Bytes, Full: left.IsLow()}
	}
	if err := w.store.State.PutOffer(ctx, w.offer.Offer); err != nil {
		return err
	}
	if err := w.store.KeepReserve(); err != nil {
		w.Logger.Warn("the store has no reserve for a full disk", "error", err)
	}
	return nil
}

// renewOffer publishes the offer again.
func (w *Worker) renewOffer(ctx context.Context) {
	if err := w.publish(ctx); err != nil {
		w.Logger.Warn("the worker's offer could not be renewed; new sessions may not use it", "error", err)
	}
}

// withdraw removes the offer, also after the end of the worker's context.
func (w *Worker) withdraw() error {
	w.offer.mu.Lock()
	defer w.offer.mu.Unlock()
	w.offer.withdrawn = true
	return w.store.State.RemoveOffer(context.Background(), w.offer.Worker)
}
