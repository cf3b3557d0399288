package access_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
			var unknown *access.HookError
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

func TestTheSecretOfAHookIsAcceptedForAWhileAfterItIsChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hooks := access.NewHooks(s.db, s.audit, s.clock.Now)
	first, _, err := hooks.Add(ann("admin"), access.Hook{Name: "tickets", Kind: access.HookGeneric, Team: "web"})
	require.NoError(t, err)
	accepted := func() (all []string) {
		found, err := hooks.Find(t.Context(), "tickets")
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
