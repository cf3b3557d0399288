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

// keysAreClaimedOnce sends equal changes at once, repeats one while it is tried, after a lost try, and after its answer.
func keysAreClaimedOnce(t *testing.T, b *bench) {
	claim := func(request, change string, kept, patience time.Duration) (state.Repeatable, bool) {
		t.Helper()
		b.clock.Pass(time.Microsecond)
		found, mine, err := b.Claim(t.Context(), state.Repeatable{Key: "k", Request: request, Change: change}, kept, patience)
		require.NoError(t, err)
		return found, mine
	}
	var first state.Repeatable
	var claims atomic.Int64
	atOnce(8, func(i int) {
		found, mine, err := b.Claim(t.Context(), state.Repeatable{Key: "k", Request: "r1", Change: fmt.Sprint("c", i)}, time.Hour,
			time.Hour)
		if assert.NoError(t, err) && mine {
			claims.Add(1)
			first = found
		}
	})
	require.EqualValues(t, 1, claims.Load())
	found, mine := claim("r1", "other", time.Hour, time.Hour)
	require.False(t, mine)
	require.Equal(t, first, found, "a try is at work")

	second, mine := claim("r1", "other", time.Hour, 0)
	require.True(t, mine, "the first try was lost")
	require.Equal(t, first.Change, second.Change)
	late := first
	late.Status, late.Answer = 500, "late"
	require.NoError(t, b.EndTry(t.Context(), late))
	found, mine = claim("r1", "other", time.Hour, time.Hour)
	require.False(t, mine)
	require.Equal(t, second, found, "a lost try has no answer")

	require.NoError(t, b.EndTry(t.Context(), second))
	third, mine := claim("r2", "another", time.Hour, time.Hour)
	require.True(t, mine, "the try ended without an answer")
	require.Equal(t, "another", third.Change, "it is another change")
	third.Status, third.ContentType, third.Answer = 200, "application/json", "{}"
	require.NoError(t, b.EndTry(t.Context(), third))
	found, mine = claim("r1", "other", time.Hour, 0)
	require.False(t, mine)
	third.TriedAt = time.Time{}
	require.Equal(t, third, found)

	found, mine = claim("r1", "new", 0, time.Hour)
	require.True(t, mine, "the answer is kept for a time")
	require.Equal(t, "new", found.Change)
}

// uploadsAreKnown looks for uploads of two teams.
func uploadsAreKnown(t *testing.T, b *bench) {
	made := state.Upload{Team: "web", Digest: "d1", By: "ann", LeftOut: []string{"a link"}}
	require.NoError(t, b.AddUpload(t.Context(), made, time.Hour))
	b.clock.Pass(time.Microsecond)
	found, err := b.Upload(t.Context(), "web", "d1", time.Hour)
	require.NoError(t, err)
	require.Equal(t, made, found)
	for _, other := range [][]string{{"api", "d1"}, {"web", "d2"}} {
		_, err = b.Upload(t.Context(), other[0], other[1], time.Hour)
		require.ErrorIs(t, err, state.ErrNotFound)
	}
	_, err = b.Upload(t.Context(), "web", "d1", 0)
	require.ErrorIs(t, err, state.ErrNotFound)
	made.By, made.LeftOut = "bob", nil
	require.NoError(t, b.AddUpload(t.Context(), made, time.Hour))
	found, err = b.Upload(t.Context(), "web", "d1", time.Hour)
	require.NoError(t, err)
	require.Equal(t, made, found)
}
