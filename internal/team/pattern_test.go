package team

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"README.md", "docs/*.md", "docs/**", "**/*.go", "**", "web/{a,b}/*.{js,css}", "a?c", "[a-z]*.txt", "[!0-9]x", ".github/workflows/*.yml", "a b/ü.md", "...x",
	} {
		require.NoError(t, CheckPattern(good), good)
	}
	for bad, want := range map[string]string{
		"": "is empty", "  ": "is empty", " a": "has spaces around it", "/etc/passwd": "is absolute", "../x": "leaves the work's directory", "a/../b": "leaves",
		"./a": "an empty or . part", "a//b": "an empty or . part", "docs/": `write "docs/**"`, `docs\x.md`: "separate directories with /",
		".git/config": "is git's own", "a[b": "brackets that are no choice", "a]": "brackets", "[]": "brackets", "[z-a]": "write a-z", "{a": "braces", "a}": "braces", "{a,{b}}": "braces", "}{": "braces",
		"a**/b": "stands for whole directories", "a\nb": "cannot be printed", "a\xff": "cannot be printed", strings.Repeat("a", 513): "at most 512",
	} {
		require.ErrorContains(t, CheckPattern(bad), want, bad)
	}
}
