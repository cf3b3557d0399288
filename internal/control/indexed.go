package control

import (
	"context"

	"github.com/maestro-hive/maestro/internal/index"
)

// indexed is the updated index of the store, and the result of the update. done ends its use.
func (b *Base) indexed(ctx context.Context) (x *index.Index, found index.Refreshed, done func(), err error) {
	x, done = b.Index, func() {}
	if x == nil {
		if x, err = index.Open(ctx, b.Store, index.Options{}); err != nil {
			return nil, found, done, err
		}
		done = func() { _ = x.Close() } // it has nothing unwritten
	}
	found, err = x.Refresh(ctx, b.Namespace)
	if err == nil || ctx.Err() != nil {
		return x, found, done, err
	}
	// Another process holds a lock, possibly a stopped one.
	done()
	if x, err = index.Open(ctx, b.Store, index.Options{InMemory: true}); err != nil {
		return nil, found, func() {}, err
	}
	found, err = x.Refresh(ctx, b.Namespace)
	return x, found, func() { _ = x.Close() }, err
}
