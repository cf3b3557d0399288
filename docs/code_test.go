package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

func readPage(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// TestTheFailureTableIsTheCodes holds each category's row against its rule.
func TestTheFailureTableIsTheCodes(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readPage(t, "team-file.md"), "## What happens to a failed attempt\n")
	table, _, _ = strings.Cut(table, "\n\nThe next attempt receives")
	rows := map[failures.Category][]string{}
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[0], -1) {
			rows[failures.Category(m[1])] = cells
		}
	}
	starts := map[failures.Start]string{
		failures.FromInput: "the input", failures.FromFiles: "the failed one's files",
		failures.FromConversation: "the same turn of the same conversation",
	}
	weights := map[failures.Weight]string{
		failures.CountsAsFailure: "a failure", failures.CountsAsSuccess: "a success",
		failures.Neutral: "nothing",
	}
	for _, c := range failures.Categories() {
		rule, cells := failures.RuleFor(c), rows[c]
		require.Len(t, cells, 6, "%s has no row", c)
		require.Equal(t, string(rule.Owner), cells[1], c)
		require.Equal(t, rule.RetryAttempt, strings.HasPrefix(cells[2], "yes"), c)
		require.Equal(t, rule.RetryRound, strings.HasPrefix(cells[4], "yes"), c)
		require.True(t, strings.HasPrefix(cells[5], weights[rule.Breaker]), c)
		if rule.RetryAttempt && c != failures.Rejected { // whose work did not fail
			require.Equal(t, starts[rule.Start], cells[3], c)
		}
	}
}

// TestEveryCategoryIsExplained finds each category in the tables for people and for
// authors of agents.
func TestEveryCategoryIsExplained(t *testing.T) {
	t.Parallel()
	symptom := regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+)")
	for page, heading := range map[string]string{"troubleshooting.md": "## Attempts fail", "writing-an-agent.md": "### Categories"} {
		_, table, found := strings.Cut(readPage(t, page), heading)
		require.True(t, found, page)
		table, _, _ = strings.Cut(table, "\n## ")
		explained := fmt.Sprint(symptom.FindAllString(table, -1))
		for _, c := range failures.Categories() {
			require.Contains(t, explained, "`"+string(c)+"`", "%s has no row for it", page)
		}
	}
}

// TestThePageShowsTheExample holds the program in the page to be the one that is run.
func TestThePageShowsTheExample(t *testing.T) {
	t.Parallel()
	page := readPage(t, "writing-an-agent.md")
	for file, language := range map[string]string{"python/counter.py": "python", "shell/writer.sh": "sh"} {
		program, err := os.ReadFile("../examples/" + file)
		require.NoError(t, err)
		require.Contains(t, page, "```"+language+"\n"+string(program)+"```\n", "%s is not what the page shows", file)
	}
}

// diagrams are the arrows of each state diagram, from one state to another.
func diagrams(t *testing.T) [][][2]string {
	t.Helper()
	var all [][][2]string
	for _, m := range regexp.MustCompile("(?s)```mermaid\nstateDiagram-v2\n(.*?)```").FindAllStringSubmatch(readPage(t, "states.md"),
		-1) {
		var arrows [][2]string
		for _, line := range strings.Split(strings.TrimSpace(m[1]), "\n") {
			arrow := regexp.MustCompile(`^ *(\S+) --> (\w+)(?:: \S.*)?$`).FindStringSubmatch(line)
			require.NotNil(t, arrow, "%q is no arrow", line)
			arrows = append(arrows, [2]string{arrow[1], arrow[2]})
		}
		all = append(all, arrows)
	}
	require.Len(t, all, 4, "session, phase, assignment, breaker")
	return all
}

func states(arrows [][2]string) []string {
	var found []string
	for _, a := range arrows {
		found = append(found, a[0], a[1])
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(s string) bool { return s == "[*]" })
}

// constants are the values of all constants of a type in a Go file.
func constants(t *testing.T, file, of string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	var values []string
	ast.Inspect(f, func(n ast.Node) bool {
		given, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := given.Type.(*ast.Ident); ok && kind.Name == of {
			value, err := strconv.Unquote(given.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			values = append(values, value)
		}
		return true
	})
	slices.Sort(values)
	require.NotEmpty(t, values)
	return values
}

// TestDiagramsHaveTheCodesStates finds every state of the code in a diagram, and every
// state of a diagram in the code.
func TestDiagramsHaveTheCodesStates(t *testing.T) {
	t.Parallel()
	all := diagrams(t)
	drawn := slices.Concat(states(all[0]), states(all[1]), states(all[2]))
	slices.Sort(drawn)
	require.Equal(t, constants(t, "../internal/core/session/status.go", "State"), slices.Compact(drawn))
	require.Equal(t, constants(t, "../internal/core/session/breaker.go", "BreakerState"), states(all[3]))
	for _, arrow := range all[0] {
		if session.State(arrow[0]).Closed() {
			require.Equal(t, string(session.Admitted), arrow[1], "only resume leads on from %s", arrow[0])
		}
	}
}

// TestNamedDeclarationsExist looks up every function, type, table and constant that a page finds in a
// file.
func TestNamedDeclarationsExist(t *testing.T) {
	t.Parallel()
	place := regexp.MustCompile("((?:`\\w+`(?:, | and )?)+) in\\s+\\[([\\w/]+\\.go)\\]\\(")
	found := 0
	for _, page := range []string{"architecture.md", "states.md", "migration.md", "resuming.md", "../CONTRIBUTING.md"} {
		for _, m := range place.FindAllStringSubmatch(readPage(t, page), -1) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", m[2]), nil, 0)
			require.NoError(t, err, "%s names %s", page, m[2])
			var declared []string
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					declared = append(declared, d.Name.Name)
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						switch s := spec.(type) {
						case *ast.ValueSpec:
							declared = append(declared, s.Names[0].Name)
						case *ast.TypeSpec:
							declared = append(declared, s.Name.Name)
						}
					}
				}
			}
			for _, name := range regexp.MustCompile(`\w+`).FindAllString(strings.ReplaceAll(m[1], " and ", ""), -1) {
				require.Contains(t, declared, name, "%s says that it is in %s", page, m[2])
				found++
			}
		}
	}
	require.Greater(t, found, 40)
}

// TestNamedFilesExist looks up every path of the source that a page names in code.
func TestNamedFilesExist(t *testing.T) {
	t.Parallel()
	path := regexp.MustCompile("`((?:internal|activities|workflows|breaker|server|starter|worker|deploy|examples|docs)/[\\w/.-]*)`")
	for _, page := range []string{
		"architecture.md", "states.md", "operations.md", "performance.md", "../README.md",
		"../CONTRIBUTING.md",
	} {
		for _, m := range path.FindAllStringSubmatch(readPage(t, page), -1) {
			_, err := os.Stat(filepath.Join("..", m[1]))
			require.NoError(t, err, "%s names it", page)
		}
	}
}
