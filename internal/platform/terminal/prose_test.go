package terminal_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{""}, terminal.Wrap("", 10))
	require.Equal(t, []string{"one two", "three", "/a/path/that/is/long", "four"}, terminal.Wrap("one two\nthree /a/path/that/is/long  four", 10))
	for _, line := range terminal.Wrap(strings.Repeat("größer ", 30), 20) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 20)
	}
}

func TestEnumeration(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a", terminal.Enumeration([]string{"a"}, "or"))
	require.Equal(t, "a or b", terminal.Enumeration([]string{"a", "b"}, "or"))
	require.Equal(t, "a, b and c", terminal.Enumeration([]string{"a", "b", "c"}, "and"))
}
