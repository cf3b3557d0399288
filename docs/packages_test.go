package docs_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// graph is the packages that the page on architecture draws, and what each has
// arrows to.
func graph(t *testing.T) map[string][]string {
	t.Helper()
	m := regexp.MustCompile("(?s)```mermaid\ngraph TD\n(.*?)```").FindStringSubmatch(readPage(t, "architecture.md"))
	require.NotNil(t, m)
	path := map[string]string{}
	for _, node := range regexp.MustCompile(`(\w+)\[([\w/]+)\]`).FindAllStringSubmatch(m[1], -1) {
		path[node[1]] = node[2]
	}
	named := func(node string) string {
		name, _, _ := strings.Cut(strings.TrimSpace(node), "[")
		if path[name] != "" {
			return path[name]
		}
		return name
	}
	drawn := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(m[1]), "\n") {
		from, to, ok := strings.Cut(line, "-->")
		require.True(t, ok, line)
		drawn[named(from)] = append(drawn[named(from)], named(to))
		drawn[named(to)] = append(drawn[named(to)], []string{}...)
	}
	return drawn
}

// reach adds to found what a package comes to over arrows.
func reach(arrows map[string][]string, from string, found map[string]bool) {
	for _, to := range arrows[from] {
		if !found[to] {
			found[to] = true
			reach(arrows, to, found)
		}
	}
}

// TestDrawnPackagesImportEachOther finds an import for every arrow, and a way over
// arrows for every import.
func TestDrawnPackagesImportEachOther(t *testing.T) {
	t.Parallel()
	const module = "github.com/maestro-hive/maestro/"
	drawn := graph(t)
	args := []string{"list", "-f", `{{.ImportPath}} {{join .Imports " "}}`}
	for name := range drawn {
		args = append(args, "../"+name)
	}
	out, err := exec.Command("go", args...).Output()
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		words := strings.Fields(strings.ReplaceAll(line, module, ""))
		name, imports := words[0], words[1:]
		for _, to := range drawn[name] {
			require.Contains(t, imports, to, "%s does not import %s", name, to)
		}
		found := map[string]bool{}
		reach(drawn, name, found)
		for to := range drawn {
			if slices.Contains(imports, to) {
				require.True(t, found[to], "%s imports %s, which is not drawn", name, to)
			}
		}
	}
}
