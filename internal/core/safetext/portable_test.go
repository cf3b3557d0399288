package safetext_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/safetext"
)

func TestPortableNamesAreNamesOnWindows(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for path, want := range map[string]string{
		"docs/a b.md": "docs/a b.md", ".gitignore": ".gitignore", "größe/日本 😀": "größe/日本 😀",
		"../lib/./x": "../lib/./x",
		"100%":       "100%", "50%off": "50%off", "": "", "a%3Ab": "a%253Ab", "console": "console", "com": "com",
		"auxiliary.c": "auxiliary.c", "x.con": "x.con",
		`C:\x`: "C%3A%5Cx", "a:b": "a%3Ab", `..\..\x`: "..%5C..%5Cx", `\\host\share`: "%5C%5Chost%5Cshare",
		`q?*"<>|`: "q%3F%2A%22%3C%3E%7C",
		"CON":     "%43ON", "src/aux.c": "src/%61ux.c", "nul .txt": "%6Eul .txt", "Com1": "%43om1", "lpt¹.x.y": "%6Cpt¹.x.y",
		"conin$": "%63onin$", "con.": "%63on%2E",
		"end.": "end%2E", "end ": "end%20", "end. .": "end. %2E", "...": "..%2E", " ": "%20", "dir./x": "dir%2E/x",
		"a\nb\x7f\x01": "a%0Ab%7F%01", "gpj\u202eexe": "gpj%E2%80%AEexe", "\xff": "%FF",
	} {
		got := safetext.Portable(path)
		require.Equal(t, want, got, "%q", path)
		require.Empty(t, seen[got])
		seen[got] = path
		if path != "100%" && path != "50%off" {
			decoded, err := url.PathUnescape(got)
			require.NoError(t, err)
			require.Equal(t, path, decoded)
		}
	}
}
