package docs_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawnRooms is the rooms that the page on architecture draws, and what each has arrows to.
func drawnRooms(t *testing.T) map[string][]string {
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

// roomOf is the room of a package of ours: internal/cli/x is in internal/cli, workflows/x in workflows.
func roomOf(pkg string) string {
	parts := strings.Split(pkg, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return "internal/" + parts[1]
	}
	return parts[0]
}

// roomImports is what the packages of each room import of other rooms.
func roomImports(t *testing.T) map[string][]string {
	t.Helper()
	const module = "github.com/maestro-hive/maestro/"
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = ".."
	out, err := list.Output()
	require.NoError(t, err)
	imports := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		words := strings.Fields(line)
		from := roomOf(strings.TrimPrefix(words[0], module))
		for _, w := range words[1:] {
			to, ours := strings.CutPrefix(w, module)
			if to = roomOf(to); ours && to != from && !slices.Contains(imports[from], to) {
				imports[from] = append(imports[from], to)
			}
		}
	}
	return imports
}

// reach adds to found what a room comes to over arrows.
func reach(arrows map[string][]string, from string, found map[string]bool) {
	for _, to := range arrows[from] {
		if !found[to] {
			found[to] = true
			reach(arrows, to, found)
		}
	}
}

// TestDrawnRoomsImportEachOther finds an import for every arrow, a way over arrows for every import, and no circle.
func TestDrawnRoomsImportEachOther(t *testing.T) {
	t.Parallel()
	drawn, imports := drawnRooms(t), roomImports(t)
	for room, arrows := range drawn {
		found := map[string]bool{}
		reach(drawn, room, found)
		require.False(t, found[room], "the arrows from %s lead back to it", room)
		for _, to := range arrows {
			require.Contains(t, imports[room], to, "%s does not import %s", room, to)
		}
		for _, to := range imports[room] {
			if _, isDrawn := drawn[to]; isDrawn {
				require.True(t, found[to], "%s imports %s, which is not drawn", room, to)
			}
		}
	}
	for room := range imports {
		if strings.HasPrefix(room, "internal/") && room != "internal/testkit" {
			require.Contains(t, drawn, room, "the picture lacks a room")
		}
	}
}
