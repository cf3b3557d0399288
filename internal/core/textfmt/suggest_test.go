package textfmt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"personas", "phases", "name", "needs", "retry", "tester", "Backend"}
	for word, want := range map[string]string{
		"persona": "personas", "phasse": "phases", "naem": "name", "need": "needs", "tster": "tester", "backend": "Backend",
		"": "", "colour": "", "x": "", "instructions": "", strings.Repeat("p", 100): "",
	} {
		require.Equal(t, want, Nearest(word, known), word)
	}
	require.Equal(t, `; did you mean "tester"?`, DidYouMean("testr", known))
	require.Empty(t, DidYouMean("zebra", known))
	require.Empty(t, Nearest("a", []string{"b"}), "one letter for another is no slip where there is but one")
}
