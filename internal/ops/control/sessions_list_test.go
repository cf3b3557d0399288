package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPagesOfAListingHaveEachSessionOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 1, time.UTC)
	known := func() (all []ListedSession) {
		for i, name := range []string{"c", "a", "e", "b", "d"} { // three of them started at once
			started := now.Add(-time.Duration(i/3) * time.Hour)
			all = append(all, ListedSession{Session: name, StartedAt: &started})
		}
		return all
	}
	var got []string
	f := SessionFilter{Limit: 2}
	for {
		require.NoError(t, f.Check())
		doc := f.page(known())
		for _, l := range doc.Sessions {
			got = append(got, l.Session)
		}
		if !doc.More {
			require.Empty(t, doc.Cursor)
			break
		}
		f.Cursor = doc.Cursor
	}
	require.Equal(t, []string{"a", "c", "e", "b", "d"}, got)
}
