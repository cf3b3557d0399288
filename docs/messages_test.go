package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
