package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
