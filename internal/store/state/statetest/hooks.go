package statetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/state"
)

func hookNamed(name, secret string) state.SecretHook {
	return state.SecretHook{
		Hook: state.Hook{
			Name: name, Kind: "github", Team: "web", Directory: "src", Labels: map[string]string{"a": "b"},
			Map: map[string]string{"requirement": "/text"},
			On:  []string{"issues.opened"}, Users: []string{"maria"}, By: "ann", CreatedAt: time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC),
		},
		Secret: secret,
	}
}

// hooksHaveKeys adds a hook once, and removes it only with its own secret.
func hooksHaveKeys(t *testing.T, b *bench) {
	var added atomic.Int64
	atOnce(6, func(i int) {
		taken, err := b.AddHook(t.Context(), hookNamed("a", fmt.Sprint("k", i)))
		if assert.NoError(t, err) && !taken {
			added.Add(1)
		}
	})
	require.EqualValues(t, 1, added.Load())
	made := hookNamed("tickets", "k1")
	for _, again := range []bool{false, true} {
		taken, err := b.AddHook(t.Context(), made)
		require.NoError(t, err)
		require.Equal(t, again, taken)
	}
	all, err := b.Hooks(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, made, all[1], "they are sorted by name")

	require.ErrorIs(t, b.RemoveHook(t.Context(), "tickets", "k2"), state.ErrNotFound, "it is another hook with this name")
	require.NoError(t, b.RemoveHook(t.Context(), "tickets", "k1"))
	_, err = b.Hook(t.Context(), "tickets")
	require.ErrorIs(t, err, state.ErrNotFound)
}
