package textfmt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCutsKeepRunesWhole(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ab", Shorten("ab", 2))
	for n := 3; n < 12; n++ {
		require.LessOrEqual(t, len(Shorten("äöüäöüäöü", n)), n)
		require.LessOrEqual(t, len(Tail("äöüäöüäöü", n)), n)
		require.True(t, strings.HasSuffix(Shorten("äöüäöüäöü", n), "…"))
		require.True(t, strings.HasPrefix(Tail("äöüäöüäöü", n), "…"))
	}
}
