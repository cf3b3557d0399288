package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	fence      = regexp.MustCompile("(?ms)^```.*?^```$")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	namedPlace = regexp.MustCompile(`<a id="([^"]+)">`)
	unslugged  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the places of a page that a link can lead to.
func anchors(t *testing.T, file string) []string {
	t.Helper()
	text := fence.ReplaceAllString(readPage(t, file), "")
	var found []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.ReplaceAll(unslugged.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	for _, m := range namedPlace.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// TestLinksLeadSomewhere follows every link of a page to a file and a heading of the
// source.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	decisions, err := filepath.Glob("decisions/*.md")
	require.NoError(t, err)
	for _, page := range append(append(pages, decisions...), "../README.md", "../CONTRIBUTING.md", "../examples/audit/README.md") {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(readPage(t, page), ""), -1) {
			path, anchor, hasAnchor := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			file := page
			if path != "" {
				file = filepath.Join(filepath.Dir(page), path)
			}
			_, err := os.Stat(file)
			require.NoError(t, err, "%s links to %s", page, m[1])
			if hasAnchor {
				require.Contains(t, anchors(t, file), anchor, "%s links to %s", page, m[1])
			}
		}
	}
}

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

// TestQuotedMessagesExist looks for every message that the page on troubleshooting
// quotes as a symptom in the source. `…` stands for what differs.
func TestQuotedMessagesExist(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == ".git" {
			return err
		}
		if filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		}
		return nil
	}))
	found := 0
	for _, line := range strings.Split(readPage(t, "troubleshooting.md"), "\n") {
		symptom, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(symptom, -1) {
			if !strings.Contains(m[1], " ") || strings.HasPrefix(m[1], "maestro ") {
				continue
			}
			for _, part := range strings.Split(m[1], "…") {
				require.Contains(t, source.String(), strings.TrimSpace(part), "the page quotes %q", m[1])
			}
			found++
		}
	}
	require.Greater(t, found, 8)
}
