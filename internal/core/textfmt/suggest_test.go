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

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"naem", "name", 1}, {"ä", "a", 1}, {"abc", "abc", 0}} {
		require.Equal(t, tt.want, distance(tt.a, tt.b), "%s %s", tt.a, tt.b)
		require.Equal(t, tt.want, distance(tt.b, tt.a), "%s %s", tt.b, tt.a)
	}
}
