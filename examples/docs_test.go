package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/config"
)

// pages are the project's texts for people.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"../README.md", "../CONTRIBUTING.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		found = append(found, more...)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// TestLinksLeadSomewhere follows every relative link.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(page), target))
			require.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
}

// TestMakeTargetsExist looks up every `make x` that a page names.
func TestMakeTargetsExist(t *testing.T) {
	t.Parallel()
	makefile := read(t, "../Makefile")
	command := regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z -]*)")
	for _, page := range pages(t) {
		for _, m := range command.FindAllStringSubmatch(read(t, page), -1) {
			for _, target := range strings.Fields(m[1]) {
				require.Contains(t, makefile, "\n"+target+":", "%s names make %s", page, target)
			}
		}
	}
}

// TestFilesInPagesLoad loads the complete files that pages show.
func TestFilesInPagesLoad(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```yaml\n# (team|agents)\\.yaml\n(.*?)```")
	unnamed := regexp.MustCompile("(?s)```yaml\n()(version: 1\nagents:.*?)```")
	found := 0
	for _, page := range pages(t) {
		text := read(t, page)
		for _, m := range append(block.FindAllStringSubmatch(text, -1), unnamed.FindAllStringSubmatch(text, -1)...) {
			file := filepath.Join(t.TempDir(), m[1]+".yaml")
			require.NoError(t, os.WriteFile(file, []byte(m[2]), 0o600))
			var err error
			switch m[1] {
			case "team":
				_, err = config.LoadTeam(file)
			case "agents", "":
				_, err = config.LoadWorker(file)
			}
			require.NoError(t, err, page)
			found++
		}
	}
	require.GreaterOrEqual(t, found, 7)
}
