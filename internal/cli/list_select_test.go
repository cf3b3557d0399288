package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPagesOfAListingHaveEachSessionOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 1, time.UTC)
	known := func() (all []listedSession) {
		for i, name := range []string{"c", "a", "e", "b", "d"} { // three of them started at once
			started := now.Add(-time.Duration(i/3) * time.Hour)
			all = append(all, listedSession{Session: name, StartedAt: &started})
		}
		return all
	}
	var got []string
	f := listFlags{limit: 2}
	for {
		sel, err := f.selection(now)
		require.NoError(t, err)
		doc := sel.page(known())
		for _, l := range doc.Sessions {
			got = append(got, l.Session)
		}
		if !doc.More {
			require.Empty(t, doc.Cursor)
			break
		}
		f.cursor = doc.Cursor
	}
	require.Equal(t, []string{"a", "c", "e", "b", "d"}, got)
}
