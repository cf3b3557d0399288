package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatAPageShowsIsComparedWithWhatIsPrinted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, shown, printed string
		same                 bool
	}{
		{"the same", "a\nb", "a\nb\n", true},
		{"without a newline at the end", "a", "a", true},
		{"an empty line before the next prompt", "a\n", "a\n", true},
		{"another word", "a", "b\n", false},
		{"a line too few", "a\nb", "a\n", false},
		{"a line too many", "a", "a\nb\n", false},
		{"any lines", "a\n...\nd", "a\nb\nc\nd\n", true},
		{"no lines", "a\n...\nb", "a\nb\n", true},
		{"any lines, and then another", "a\n...\nd", "a\nb\nc\n", false},
		{"any lines at the end", "a\n...", "a\nb\n", true},
		{"anything in a line", "x … z", "x anything z\n", true},
		{"anything, but in its line", "x … z", "x a\nb z\n", false},
		{"dots in a line are dots", "a ... b", "a x b\n", false},
		{"patterns are text", "a.c (x)", "abc (x)\n", false},
		{"times", "03:05:18  done in 3s", "20:47:05  done in 1m 12.5s\n", true},
		{"dates", "since 2026-01-02 03:04:05", "since 2031-11-21 20:47:13\n", true},
		{"digests", "sha256 f5cf6b8997e2", "sha256 000000000000\n", true},
		{"hours are what they are", "gives up after 168h", "gives up after 24h\n", false},
		{"numbers are what they are", "46,290 tokens", "46,291 tokens\n", false},
		{"columns are as wide as they are", "A  B", "A      B\n", true},
	} {
		require.Equal(t, c.same, shows(strings.Split(c.shown, "\n"), c.printed, false), c.name)
	}
	require.True(t, shows([]string{"a"}, "a\nb\n", true), "it may go on")
	require.False(t, shows([]string{"a", "b"}, "a\n", true), "it is not all there yet")
}

func TestPagesAreParsed(t *testing.T) {
	t.Parallel()
	text := "```sh\n#!/bin/sh\n# agents/a.sh\nexit 0\n```\n\n```yaml\nversion: 1\n# team.yaml\n```\n" +
		"```console exit=3 terminal=dev\n$ one \\\n>   two\nout\n\n$ three\n^C\nbye\n```\n<!-- console\n$ four\n-->\n<!-- a remark -->\n" +
		"<!-- sh\n# b.sh\n-->\n"
	p, err := parsePage("p.md", text)
	require.NoError(t, err)
	require.Equal(t, page{name: "p.md", steps: []step{
		{line: 1, file: "agents/a.sh", content: "#!/bin/sh\n# agents/a.sh\nexit 0\n"},
		{line: 11, terminal: "dev", exit: 3, commands: []command{
			{line: 12, typed: "one \\\n  two", shown: []string{"out", ""}}, {line: 16, typed: "three"}, {line: 17, typed: "^C", shown: []string{"bye"}},
		}},
		{line: 20, commands: []command{{line: 21, typed: "four"}}},
		{line: 24, file: "b.sh", content: "# b.sh\n"},
	}}, p)
	for text, want := range map[string]string{
		"```console\n$ a\n":            "p.md:1: the block does not end",
		"```console\nout\n```\n":       "p.md:1: a block marked console begins with a command",
		"\n```console exti=3\n```\n":   "p.md:2: console knows exit=N and terminal=NAME, not exti=3",
		"```console exit=three\n```\n": "p.md:1: strconv.Atoi",
	} {
		_, err := parsePage("p.md", text)
		require.ErrorContains(t, err, want)
	}
}

// TestReadersNotice has readers follow pages that are right, and pages that are wrong.
func TestReadersNotice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"```sh\n# say.sh\necho $1\n```\n```console\n$ sh say.sh hello\nhello\n```":                        "",
		"```console\n$ mkdir d && cd d\n$ export X=1\n$ echo $X ${PWD##*/}\n1 d\n```":                     "",
		"```console\n$ echo no\nyes\n```":                                                                 "p.md:2: $ echo no\nthe page shows:\nyes\nprinted was:\nno\n",
		"```console\n$ echo oops; false\n```":                                                             "p.md:2: $ echo oops; false\nexit status 1, not 0; printed:\noops\n",
		"```console exit=3\n$ exit 3\n```":                                                                "",
		"```console exit=3\n$ true\n```":                                                                  "exit status 0, not 3",
		"```console terminal=a\n^C\n```":                                                                  "nothing is at work there",
		"```console terminal=a\n$ echo up\ndown\n```":                                                     "it ended",
		"```console terminal=a\n$ echo up; exec sleep 600\nup\n```\n```console exit=130\n$ exit 130\n```": "",
		"```console terminal=a\n$ trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.1; done\nup\n```\n```console terminal=a\n^C\nbye\n$ echo next\nnext\n```": "",
	} {
		p, err := parsePage("p.md", text)
		require.NoError(t, err)
		err = newReader(t).follow(p)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
