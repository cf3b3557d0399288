package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOfALongTranscriptTheRestIsFound(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a line of it\n", 1000) + "the last line\n"
	require.Equal(t, "more\n", unprinted(text, text+"more\n"))
	require.Equal(t, "more\n", unprinted(text, "the beginning\n… 9 bytes omitted …\n"+text[len(text)-maxOverlap-100:]+"more\n"))
	require.Equal(t, "something else", unprinted(text, "something else"))
}
