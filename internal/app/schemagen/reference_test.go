package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryTypeHasItsPlaceInThePage(t *testing.T) {
	t.Parallel()
	page := "a\n<!-- keys of A, by hand -->\nold\n<!-- end of keys -->\nb\n"
	filled, err := fill(page, []table{{"A", "new\n"}})
	require.NoError(t, err)
	require.Equal(t, "a\n<!-- keys of A, by `go generate ./docs/schema` from the type's docstrings -->\n\nnew\n\n<!-- end of "+
		"keys -->\nb\n", filled)
	again, err := fill(filled, []table{{"A", "new\n"}})
	require.NoError(t, err)
	require.Equal(t, filled, again)
	for _, c := range []struct {
		page   string
		tables []table
		want   string
	}{
		{page, nil, "there is no table of A"},
		{page + page, []table{{"A", "new\n"}}, "or it is there already"},
		{page, []table{{"A", "new\n"}, {"B", "new\n"}}, "it has no place for the keys of B"},
	} {
		_, err := fill(c.page, c.tables)
		require.ErrorContains(t, err, c.want)
	}
}
