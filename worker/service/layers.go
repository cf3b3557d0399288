package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/layers"
	"github.com/maestro-hive/maestro/internal/room"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// collectLayersEvery is how often unused layers are removed while layers are acquired.
const collectLayersEvery = 10 * time.Minute

// layered reports whether the agents of a worker use layers; see [agent.Set.HasLayers].
type layered interface {
	HasLayers() bool
	User() *room.Account
}

// layerCache has the layers of a worker. It removes unused ones every collectLayersEvery.
type layerCache struct {
	layers *layers.Layers
	logger *slog.Logger
	clock  func() time.Time

	mu        sync.Mutex
	collected time.Time
}

func newLayerCache(root string, st *store.Store, agents layered, logger *slog.Logger, clock func() time.Time) (*layerCache, error) {
	o := layers.Options{Root: root, Files: st.Content, Now: clock}
	if user := agents.User(); user != nil {
		o.Owner = &cas.Owner{UID: int(user.UID), GID: int(user.GID)}
	}
	l, err := layers.New(o)
	if err != nil {
		return nil, err
	}
	return &layerCache{layers: l, logger: logger, clock: clock}, nil
}

// acquire is a [workdir.Acquire].
func (t *layerCache) acquire(ctx context.Context, manifest spec.Digest, near ...spec.Digest) (dirs []string, release func(), err error) {
	stack, err := t.layers.Acquire(ctx, manifest, near...)
	if err != nil {
		return nil, nil, err
	}
	if t.due() {
		go t.collect(context.WithoutCancel(ctx))
	}
	return stack.Dirs, func() { _ = stack.Release() }, nil // the kernel unlocks at the latest when the process ends
}

// due reports whether it is time to collect, and sets the next time.
func (t *layerCache) due() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	if now.Sub(t.collected) < collectLayersEvery {
		return false
	}
	t.collected = now
	return true
}

func (t *layerCache) collect(ctx context.Context) {
	if err := t.layers.Collect(ctx); err != nil {
		t.logger.Warn("unused layers could not be removed", "error", err)
	}
}

// free removes all unused layers, because the disk is full. It reports whether there were any.
func (t *layerCache) free(ctx context.Context) bool {
	freed, err := t.layers.Free(ctx)
	if err != nil {
		t.logger.Warn("unused layers could not be removed from a full disk", "error", err)
	}
	return freed
}
