package docs_test

import (
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
