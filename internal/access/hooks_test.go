package access_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/storage"
)

// meanwhile is a storage in which something happens once before a line of the audit log is written.
type meanwhile struct {
	storage.Storage
	once sync.Once
	what func()
}

func (m *meanwhile) Lock(ctx context.Context, key string) (storage.Locked, error) {
	m.once.Do(m.what)
	return m.Storage.Lock(ctx, key)
}

// TestAHookIsRemovedOnce has others remove a hook, and add another one of its name, while it is removed.
func TestAHookIsRemovedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hooks := access.NewHooks(s.docs, s.audit, s.clock.Now)
	add := func(team string) {
		_, _, err := hooks.Add(ann("admin"), access.Hook{Name: "tickets", Kind: access.HookGeneric, Team: team})
		require.NoError(t, err)
	}
	remove := func() {
		_, err := hooks.Remove(ann("admin"), "tickets")
		require.NoError(t, err)
	}
	for _, what := range []func(){remove, func() { remove(); add("shop") }} {
		add("web")
		docs := &meanwhile{Storage: s.docs, what: what}
		removed, err := access.NewHooks(docs, access.NewAudit(docs, s.clock.Now), s.clock.Now).Remove(ann("admin:web"), "tickets")
		var unknown *access.HookError
		require.ErrorAs(t, err, &unknown)
		require.True(t, unknown.Unknown)
		require.Empty(t, removed)
	}
	list, err := hooks.List(ann("admin"))
	require.NoError(t, err)
	require.Len(t, list, 1, "the other team's hook is left")
}
