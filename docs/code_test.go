package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

func readPage(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// TestTheFailureTableIsTheCodes holds each category's row against its rule.
func TestTheFailureTableIsTheCodes(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readPage(t, "team-file.md"), "## What happens to a failed attempt\n")
	table, _, _ = strings.Cut(table, "\n\nAn attempt is told")
	rows := map[team.Category][]string{}
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[0], -1) {
			rows[team.Category(m[1])] = cells
		}
	}
	starts := map[team.Start]string{team.FromInput: "the input", team.FromFiles: "the failed one's files", team.FromConversation: "the same turn of the same conversation"}
	weights := map[team.Weight]string{team.CountsAsFailure: "a failure", team.CountsAsSuccess: "a success", team.Neutral: "nothing"}
	for _, c := range team.Categories() {
		rule, cells := team.RuleFor(c), rows[c]
		require.Len(t, cells, 5, "%s has no row", c)
		require.Equal(t, rule.RetryAttempt, strings.HasPrefix(cells[1], "yes"), c)
		require.Equal(t, rule.RetryRound, strings.HasPrefix(cells[3], "yes"), c)
		require.True(t, strings.HasPrefix(cells[4], weights[rule.Breaker]), c)
		if rule.RetryAttempt && c != team.Rejected { // whose work did not fail
			require.Equal(t, starts[rule.Start], cells[2], c)
		}
	}
}

// TestThePageShowsTheExample holds the program in the page to be the one that is run.
func TestThePageShowsTheExample(t *testing.T) {
	t.Parallel()
	page := readPage(t, "writing-an-agent.md")
	for file, language := range map[string]string{"python/counter.py": "python", "shell/writer.sh": "sh"} {
		program, err := os.ReadFile("../examples/" + file)
		require.NoError(t, err)
		require.True(t, strings.Contains(page, "```"+language+"\n"+string(program)+"```\n"), "%s is not what the page shows", file)
	}
}
