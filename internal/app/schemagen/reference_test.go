package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryTypeHasItsPlaceInThePage(t *testing.T) {
	t.Parallel()
	page := "a\n<!-- keys of A, by hand -->\nold\n<!-- end of keys -->\nb\n"
	filled, err := fill(page, []table{{"A", "new\n"}})
	require.NoError(t, err)
	require.Equal(t, "a\n<!-- keys of A, by `go generate ./docs/schema` from the type's docstrings -->\n\nnew\n\n<!-- end of "+
		"keys -->\nb\n", filled)
	again, err := fill(filled, []table{{"A", "new\n"}})
	require.NoError(t, err)
	require.Equal(t, filled, again)
	for _, c := range []struct {
		page   string
		tables []table
		want   string
	}{
		{page, nil, "there is no table of A"},
		{page + page, []table{{"A", "new\n"}}, "or it is there already"},
		{page, []table{{"A", "new\n"}, {"B", "new\n"}}, "it has no place for the keys of B"},
	} {
		_, err := fill(c.page, c.tables)
		require.ErrorContains(t, err, c.want)
	}
}

// TestTablesSay looks at rows of each sort.
func TestTablesSay(t *testing.T) {
	t.Parallel()
	w, err := readWords("../../..")
	require.NoError(t, err)
	rows := ""
	for _, d := range documents {
		s, err := d.generate(w)
		require.NoError(t, err)
		tables, err := d.tables(s)
		require.NoError(t, err)
		for _, table := range tables {
			rows += table.text
		}
	}
	for _, row := range []string{
		"| <a id=\"team-version\"></a>`version` | `1` | required | The version of the file's format. The only one is 1. |",
		"| <a id=\"persona-role\"></a>`role` | text, up to 200 characters | required | The persona's title. It is part of the " +
			"prompt. |",
		"| <a id=\"team-personas\"></a>`personas` | mapping of names to [mappings](#keys-of-persona), 1 to 256 | required |",
		"| <a id=\"phase-order\"></a>`order` | `parallel`, `sequence` | `parallel` |",
		"| <a id=\"retry-initial\"></a>`initial` | duration, 1ms to 24h | `1s` |",
		"| <a id=\"budget-usd\"></a>`usd` | US dollars above 0, up to 1,000,000 |  |",
		"| <a id=\"budget-warn-at\"></a>`warn_at` | list of numbers between 0 and 1 |  |",
		"| <a id=\"agent-concurrency\"></a>`concurrency` | number, 1 to 1,000 | `4` for command; `8` for model; `10` for delivery |",
		"| <a id=\"agent-max-turns\"></a>`max_turns` | number, 1 to 10,000 | `200` for preset claude; `50` for model |",
		"| <a id=\"breaker-counts\"></a>`counts` | list of [categories](team-file.md#what-happens-to-a-failed-attempt) | `timeout`, " +
			"`api_error`, `rate_limited`, `unknown` |",
		"| <a id=\"limits-file-bytes\"></a>`file_bytes` | size, 1B to 100GB | `100MB` |",
		"| <a id=\"check-keep\"></a>`keep` | list of patterns |  |",
		"| <a id=\"worker-secrets\"></a>`secrets` | list of variables |  |",
	} {
		require.Contains(t, rows, row)
	}
	require.NotRegexp(t, `\bnil\b|\| [a-z]+ is `, rows)
}
