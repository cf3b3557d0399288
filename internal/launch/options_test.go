package launch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARequirementIsShownByCharacters(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b", oneLine("a\n b", 3))
	require.Equal(t, strings.Repeat("界", memoRequirement), oneLine(strings.Repeat("界", memoRequirement), memoRequirement))
	require.Equal(t, strings.Repeat("界", 4)+"…", oneLine(strings.Repeat("界", 6), 5))
}
