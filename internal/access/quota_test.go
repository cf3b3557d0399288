package access

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestACountOfANameIsNotWashedAway tries one name, and then more others than a cache would hold.
func TestACountOfANameIsNotWashedAway(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	q := newNameQuota(2, time.Minute, func() time.Time { return at })
	for _, want := range []bool{true, true, false} {
		ok, _ := q.take("ann")
		require.Equal(t, want, ok)
	}
	for i := range 100_000 {
		q.take(fmt.Sprint("other", i))
	}
	ok, after := q.take("ann")
	require.False(t, ok)
	require.Equal(t, time.Minute, after)
	q.forget("ann")
	ok, _ = q.take("ann")
	require.True(t, ok)
}
