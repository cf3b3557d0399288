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
	if found, err = x.Refresh(ctx, b.Namespace); err != nil {
		done()
		return nil, found, func() {}, err
	}
	return x, found, done, nil
}
