package access_test

import (
	"context"
	"sync"
	"testing"
	"time"

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

func TestTheSecretOfAHookIsAcceptedForAWhileAfterItIsChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hooks := access.NewHooks(s.docs, s.audit, s.clock.Now)
	first, _, err := hooks.Add(ann("admin"), access.Hook{Name: "tickets", Kind: access.HookGeneric, Team: "web"})
	require.NoError(t, err)
	accepted := func() (all []string) {
		found, err := hooks.Find("tickets")
		require.NoError(t, err)
		for _, one := range found.Secrets {
			all = append(all, one.Secret)
		}
		return all
	}
	rotate := func(overlap time.Duration) string {
		secret, until, _, err := hooks.Rotate(ann("admin:web"), "tickets", overlap)
		require.NoError(t, err)
		require.Equal(t, s.clock.Now().Add(overlap), until)
		return secret
	}
	second := rotate(time.Hour)
	require.Equal(t, []string{second, first}, accepted())
	s.clock.advance(30 * time.Minute)
	third := rotate(2 * time.Hour)
	require.Equal(t, []string{third, second, first}, accepted())
	s.clock.advance(30 * time.Minute)
	require.Equal(t, []string{third, second}, accepted(), "a longer overlap is not that of the secrets before")
	fourth := rotate(0)
	require.Equal(t, []string{fourth}, accepted())
	for range 4 {
		rotate(time.Hour)
	}
	var refused *access.HookError
	_, _, _, err = hooks.Rotate(ann("admin:web"), "tickets", time.Hour)
	require.ErrorAs(t, err, &refused)
	_, _, _, err = hooks.Rotate(ann("admin:shop"), "tickets", time.Hour)
	var denied *access.DeniedError
	require.ErrorAs(t, err, &denied)
}
