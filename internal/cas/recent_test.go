package cas

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecentDigestsAreBounded(t *testing.T) {
	t.Parallel()
	var r RecentDigests
	require.False(t, r.Has("a"))
	for i := range maxRecent + 10 {
		d := DigestOf(fmt.Append(nil, i))
		r.Add(d)
		r.Add(d)
		require.True(t, r.Has(d))
		require.LessOrEqual(t, len(r.held), maxRecent)
	}
	r.Clear()
	require.Empty(t, r.held)
}
