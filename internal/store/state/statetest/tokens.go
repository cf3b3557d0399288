package statetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/state"
)

// atOnce does something several times at once.
func atOnce(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func tokenNamed(name, id string) state.Token {
	return state.Token{
		Hash: "hash of " + id, ID: id, Name: name, Roles: map[string][]state.Role{"*": {"viewer"}},
		Groups: []string{"leads"}, By: "ann", ByID: "a1",
	}
}

// tokensHaveNames has many add tokens of one name at once.
func tokensHaveNames(t *testing.T, b *bench) {
	var added atomic.Int64
	atOnce(8, func(i int) {
		_, taken, err := b.AddToken(t.Context(), tokenNamed("ci", fmt.Sprint(i)), 0, time.Hour)
		if assert.NoError(t, err) && taken == "" {
			added.Add(1)
		}
	})
	require.EqualValues(t, 1, added.Load())
	all, err := b.Tokens(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// tokensEnd revokes a token, lets another one expire, and adds one in their place.
func tokensEnd(t *testing.T, b *bench) {
	made, _, err := b.AddToken(t.Context(), tokenNamed("ci", "1"), 0, time.Hour)
	require.NoError(t, err)
	require.Zero(t, made.ExpiresAt)
	found, err := b.UseToken(t.Context(), made.Hash)
	require.NoError(t, err)
	require.Equal(t, made, found)
	used, err := b.Token(t.Context(), "1")
	require.NoError(t, err)
	require.Equal(t, made.CreatedAt.Format(time.DateOnly), used.LastUsed)

	revoked, err := b.RevokeToken(t.Context(), "1", "bob")
	require.NoError(t, err)
	require.Equal(t, "bob", revoked.RevokedBy)
	again, err := b.RevokeToken(t.Context(), "1", "carl")
	require.NoError(t, err)
	require.Equal(t, revoked, again)
	_, err = b.UseToken(t.Context(), made.Hash)
	require.ErrorIs(t, err, state.ErrNotFound)
	_, err = b.RevokeToken(t.Context(), "2", "bob")
	require.ErrorIs(t, err, state.ErrNotFound)

	short, taken, err := b.AddToken(t.Context(), tokenNamed("ci", "2"), time.Microsecond, time.Hour)
	require.NoError(t, err)
	require.Empty(t, taken, "the name of a token that has ended is free")
	require.Equal(t, short.CreatedAt.Add(time.Microsecond), *short.ExpiresAt)
	b.clock.Pass(time.Microsecond)
	_, err = b.UseToken(t.Context(), short.Hash)
	require.ErrorIs(t, err, state.ErrNotFound)
	b.clock.Pass(time.Microsecond)
	_, taken, err = b.AddToken(t.Context(), tokenNamed("ci", "3"), 0, 0)
	require.NoError(t, err)
	require.Empty(t, taken)
	all, err := b.Tokens(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1, "tokens that ended long ago are deleted")
}
