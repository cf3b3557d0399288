package safetext_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/safetext"
)

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                                 "plain",
		"two\nlines\tand a tab":                 "two\nlines\tand a tab",
		"\x1b[31mred\x1b[0m \x1b[2Jcleared":     "red cleared",
		"\x1b]0;title\x07a\x1b]8;;u\x1b\\link":  "alink",
		"\u009b31mred, \u009d0;title\u009cdone": "red, done",
		"unended \x1b]0;title\nnext":            "unended 0;title\nnext",
		"50%\r100%\r\ndone":                     "50%\n100%\ndone",
		"rm -rf /\x08\x08\x08\x7fls":            "rm -rf /ls",
		"a\u202egnp.exe\u2066b\u200b\u2060\ufeffc\u00ad\u3164d\U000e0041": "agnp.exebcd",
		"café 世界 😀":     "café 世界 😀",
		"bad \xff\xfe.": "bad \ufffd\ufffd.",
		"a\u2028b":      "a\nb",
		"\x1b":          "",
		"\x1b(0q":       "q",

		"50%\r\x1b[K\n60%":    "50%\n\n60%",
		"\x1b]0;a\rb\x07next": "0;a\nbnext",
	} {
		require.Equal(t, want, safetext.Block(in), "%q", in)
		require.Equal(t, strings.Join(strings.Fields(want), " "), safetext.Line(in), "%q", in)
	}
	require.Equal(t, "\x1b[1;31mred\x1b[0m and not", safetext.Coloured("\x1b[1;31mred\x1b[0m\x1b[2J and \x1b]0;x\x07not"))
}

// A program that begins a million strings, and ends none, costs no more than others.
func TestTextIsReadOnce(t *testing.T) {
	t.Parallel()
	require.Len(t, safetext.Block(strings.Repeat("\x1b]a", 1<<20)), 1<<20)
}

func TestName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"src/main.go": "src/main.go", "a b/é": "a b/é",
		"cod\u202etxt.exe": `cod\u202etxt.exe`, "a\nb\tc": `a\x0ab\x09c`, "a\xff": `a\xff`, "a\u00a0b\U000e0041": `a\u00a0b\U000e0041`,
	} {
		require.Equal(t, want, safetext.Name(in))
	}
	require.Equal(t, "if a\\u202e {\n\t\\x1b[2J }\n", safetext.Source("if a\u202e {\n\t\x1b[2J }\n"))
}

func TestCode(t *testing.T) {
	t.Parallel()
	require.Empty(t, safetext.Code(" \n"))
	require.Equal(t, "`![x](http://evil.example) '<img src=x>' \\| **b**`",
		safetext.Code("![x](http://evil.example)\n`<img src=x>` | **b**"))
}

func TestCodeBlock(t *testing.T) {
	t.Parallel()
	require.Equal(t, "```\n\n```", safetext.CodeBlock("\n"))
	require.Equal(t, "`````\n# a\n```\n````\n![x](y)\n`````", safetext.CodeBlock("# a\n```\x1b[2J\n````\n![x](y)\n"))
}

func FuzzText(f *testing.F) {
	f.Add("\x1b]8;;http://evil.example\x1b\\x\u202e\u009b1m\xc2")
	f.Fuzz(func(t *testing.T, text string) {
		for _, out := range []string{
			safetext.Block(text), safetext.Line(text), safetext.Name(text), safetext.Source(text),
			safetext.Code(text),
		} {
			require.True(t, utf8.ValidString(out))
			for _, r := range out {
				require.True(t, r == '\n' || r == '\t' || !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp), "%q", out)
			}
		}
		require.NotContains(t, strings.Trim(safetext.Code(text), "`"), "`")
		require.Equal(t, safetext.Block(text), safetext.Block(safetext.Block(text)))
		require.Equal(t, safetext.Block(text), safetext.Block(safetext.Coloured(text)))
		document, err := json.Marshal(text)
		require.NoError(t, err)
		var before, after string
		require.NoError(t, json.Unmarshal(document, &before))
		require.NoError(t, json.Unmarshal(safetext.JSON(document), &after))
		require.Equal(t, before, after)
	})
}

func TestClippedTextIsOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "größer", safetext.Clip("größer", 6))
	require.Equal(t, "größ…", safetext.Clip("größer", 5))
	require.Equal(t, "a b", safetext.Clip("a\n\x1b[1m b", 9))
	require.Equal(t, strings.Repeat("界", 120), safetext.Clip(strings.Repeat("界", 120), 120))
	require.Equal(t, strings.Repeat("界", 4)+"…", safetext.Clip(strings.Repeat("界", 6), 5))
}

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
