package access_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
)

func TestAHookIsRemovedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hooks := access.NewHooks(s.db, s.audit, s.clock.Now)
	_, _, err := hooks.Add(ann("admin"), access.Hook{Name: "tickets", Kind: access.HookGeneric, Team: "web"})
	require.NoError(t, err)
	var all sync.WaitGroup
	var removed atomic.Int64
	for range 8 {
		all.Go(func() {
			_, err := hooks.Remove(ann("admin"), "tickets")
			var unknown *access.NameError
			switch {
			case err == nil:
				removed.Add(1)
			case assert.ErrorAs(t, err, &unknown):
				assert.True(t, unknown.Unknown)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, removed.Load())
	list, err := hooks.List(ann("admin"))
	require.NoError(t, err)
	require.Empty(t, list)
}
