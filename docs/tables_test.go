package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePictureOfTheTables holds the picture on the page about the architecture against the schema. When it fails, it prints
// the picture that the page has to have.
func TestThePictureOfTheTables(t *testing.T) {
	t.Parallel()
	schema, err := os.ReadFile("../internal/store/state/schema.sql")
	require.NoError(t, err)
	picture := "```mermaid\nerDiagram\n"
	for _, m := range regexp.MustCompile(`(?s)\ncreate table (\w+) \((.*?)\n\);`).FindAllStringSubmatch(string(schema), -1) {
		table, body := m[1], m[2]
		owners := regexp.MustCompile(`references (\w+)`).FindAllStringSubmatch(body, -1)
		if len(owners) == 0 && !strings.Contains(string(schema), "references "+table+" ") {
			picture += "  " + table + "\n"
		}
		for _, owner := range owners {
			picture += fmt.Sprintf("  %s ||--o{ %s : has\n", owner[1], table)
		}
	}
	picture += "```\n"
	require.Contains(t, readPage(t, "architecture.md"), picture, "the page lacks:\n%s", picture)
}
