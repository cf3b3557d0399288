package state

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryColumnWithContentIsARoot: what a column names and no root reaches would be deleted.
func TestEveryColumnWithContentIsARoot(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"checkpoints.tree": true} // its document names it
	for _, c := range slices.Concat(rootColumns, sharedColumns) {
		known[c.table+"."+c.column] = true
	}
	table := regexp.MustCompile(`^create table (\w+)`)
	column := regexp.MustCompile(`^  (\w+)\s+text\b.*--.*\b(blob|manifest)`)
	found := 0
	current := ""
	for line := range strings.Lines(schema) {
		if m := table.FindStringSubmatch(line); m != nil {
			current = m[1]
		}
		if m := column.FindStringSubmatch(line); m != nil {
			found++
			require.Contains(t, known, current+"."+m[1], line)
		}
	}
	require.Greater(t, found, 17)
}

// TestEveryTableOfSessionsMoves with an archive of a session.
func TestEveryTableOfSessionsMoves(t *testing.T) {
	t.Parallel()
	for _, text := range strings.Split(schema, "create table ")[1:] {
		name, columns, _ := strings.Cut(text, " (")
		columns, _, _ = strings.Cut(columns, "\n);")
		if strings.Contains(columns, "\n  namespace ") && strings.Contains(columns, "\n  session ") {
			require.Contains(t, sessionTables, name)
		}
	}
}
