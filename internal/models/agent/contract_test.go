package agent

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// section is what the page on agents says below a heading, or below a line.
func section(t *testing.T, page, after string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n"+after+"\n")
	require.True(t, ok, "the page has no line %q", after)
	rest, _, _ = strings.Cut(rest, "\n#")
	return rest
}

// named are the words in code of the first column of a section's first table.
func named(section string) []string {
	var names []string
	inTable := false
	for _, line := range strings.Split(section, "\n") {
		row, isRow := strings.CutPrefix(line, "| ")
		if inTable && !isRow {
			break
		}
		inTable = inTable || strings.HasPrefix(line, "|---")
		if !inTable || !isRow {
			continue
		}
		first, _, _ := strings.Cut(row, " | ")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(first, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

// fields are the names that a type has in JSON.
func fields(of any) []string {
	var names []string
	for f := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestThePageHasTheContract holds the page on agents against the types that are read
// and written.
func TestThePageHasTheContract(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/writing-an-agent.md")
	require.NoError(t, err)
	page := string(data)
	require.Equal(t, fields(session.Brief{}), named(section(t, page, "### The brief")))
	require.Equal(t, fields(session.Feedback{}), named(section(t, page, "`feedback` has")))
	results := section(t, page, "### The result")
	require.Equal(t, fields(result{}), named(results))
	for _, of := range []any{cost.Usage{}, sentBack{}, resultError{}} {
		for _, name := range fields(of) {
			require.Contains(t, results, "`"+name+"`")
		}
	}
	for _, name := range fields(session.MaySendBack{}) {
		require.Contains(t, section(t, page, "### The brief"), "`"+name+"`")
	}
	var all, refused []string
	for _, c := range failures.Categories() {
		all = append(all, string(c))
		if (&resultError{Category: c}).check() != nil {
			refused = append(refused, string(c))
		}
	}
	slices.Sort(all)
	categories := section(t, page, "### Categories")
	require.Equal(t, all, named(categories))
	require.Len(t, refused, 3, "the page says that the last three are Maestro's")
	for _, c := range refused {
		require.Regexp(t, "(?m)^\\| [^|]*`"+c+"`[^|]* \\| never", categories)
	}
}
