package examples_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAuditOfCobra audits a module that many use, as it is in the module cache, and
// holds every figure against what the toolchain says when it is asked directly.
func TestAuditOfCobra(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	source := strings.TrimSpace(goOutput(t, ".", "list", "-m", "-f", "{{.Dir}}", "github.com/spf13/cobra"))
	r := s.audit(t, source, "cobra", 0)
	require.Equal(t, map[string]string{
		"inventory": "completed", "build": "completed", "examination": "completed", "api": "completed", "report": "completed", "gate": "completed",
	}, s.phases(t, "cobra"))
	s.requireSideBySide(t, "cobra", "vetter", "tester")

	module := writable(t, source) // where the toolchain may leave what it likes
	want := &answers{t: t, dir: module}
	packages := want.packages()
	require.Equal(t, "github.com/spf13/cobra", r.Inventory.Module)
	require.True(t, r.Build.Builds)
	require.Empty(t, r.Build.Problems)
	require.Len(t, r.Vet.Findings, want.vetFindings())

	tests, all := want.tests()
	require.Equal(t, all, r.Tests.figures)
	require.Equal(t, want.total(), fmt.Sprintf("%.1f%%", r.Tests.Percent))

	require.Len(t, r.Packages, len(packages))
	require.Equal(t, len(packages), r.Inventory.Packages)
	var exports, sizes figures
	for i, p := range packages {
		row := r.Packages[i]
		require.Equal(t, p.ImportPath, row.Path)
		require.Equal(t, want.sizes(p), row.figures, p.ImportPath)
		require.Equal(t, want.exports(p), row.Exported, p.ImportPath)
		require.Equal(t, tests[p.ImportPath].figures, row.Tests, p.ImportPath)
		if row.Percent == nil {
			require.Empty(t, tests[p.ImportPath].coverage)
		} else {
			require.Equal(t, tests[p.ImportPath].coverage, fmt.Sprintf("%.1f%%", *row.Percent), p.ImportPath)
		}
		require.Contains(t, r.page, fmt.Sprintf("| `%s` | library | yes | %d | %d |", p.ImportPath, row.CodeFiles, row.CodeLines))
		exports, sizes = exports.plus(row.Exported), sizes.plus(row.figures)
	}
	require.Equal(t, exports, r.API.All)
	require.Equal(t, sizes, r.Inventory.Totals)
}

func (f figures) plus(o figures) figures {
	return figures{
		CodeFiles: f.CodeFiles + o.CodeFiles, TestFiles: f.TestFiles + o.TestFiles, CodeLines: f.CodeLines + o.CodeLines, TestLines: f.TestLines + o.TestLines,
		Funcs: f.Funcs + o.Funcs, Types: f.Types + o.Types, Methods: f.Methods + o.Methods, Consts: f.Consts + o.Consts, Vars: f.Vars + o.Vars,
	}
}

// requireSideBySide holds that two personas of a phase were at work at one time.
func (s *stand) requireSideBySide(t *testing.T, session, one, other string) {
	t.Helper()
	var logs struct {
		Logs []struct {
			Persona   string
			StartedAt time.Time `json:"started_at"`
			EndedAt   time.Time `json:"ended_at"`
		}
	}
	s.json(t, &logs, "logs", session, "examination")
	begun, ended := map[string]time.Time{}, map[string]time.Time{}
	for _, l := range logs.Logs {
		begun[l.Persona], ended[l.Persona] = l.StartedAt, l.EndedAt
	}
	require.Len(t, begun, 2)
	require.True(t, begun[one].Before(ended[other]) && begun[other].Before(ended[one]),
		"%s worked from %s to %s, %s from %s to %s", one, begun[one], ended[one], other, begun[other], ended[other])
}

// writable copies a module out of the module cache.
func writable(t *testing.T, source string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "module")
	require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		return errors.Join(err, os.Chmod(path, map[bool]fs.FileMode{true: 0o755, false: 0o644}[d.IsDir()]))
	}))
	return dir
}

// answers asks the toolchain about a module.
type answers struct {
	t       *testing.T
	dir     string
	profile string
}

type goPackage struct {
	ImportPath, Dir, Export                      string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
}

func (a *answers) list(args ...string) []goPackage {
	decoder := json.NewDecoder(strings.NewReader(goOutput(a.t, a.dir, append([]string{"list", "-json"}, args...)...)))
	var listed []goPackage
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return listed
		}
		require.NoError(a.t, err)
		listed = append(listed, p)
	}
}

func (a *answers) packages() []goPackage { return a.list("./...") }

func (a *answers) sizes(p goPackage) figures {
	lines := func(files []string) (n int) {
		for _, file := range files {
			n += strings.Count(read(a.t, filepath.Join(p.Dir, file)), "\n")
		}
		return n
	}
	code, tests := append(p.GoFiles, p.CgoFiles...), append(p.TestGoFiles, p.XTestGoFiles...)
	return figures{CodeFiles: len(code), TestFiles: len(tests), CodeLines: lines(code), TestLines: lines(tests)}
}

func (a *answers) vetFindings() (n int) {
	_, printed, _ := goCommand(a.t, a.dir, "vet", "./...")
	for line := range strings.Lines(printed) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "go: downloading") {
			n++
		}
	}
	return n
}

type testedPackage struct {
	figures
	coverage string
}

// tests counts what go test -json says of each test.
func (a *answers) tests() (packages map[string]testedPackage, all figures) {
	a.profile = filepath.Join(a.t.TempDir(), "coverage.out")
	printed, _, _ := goCommand(a.t, a.dir, "test", "-json", "-coverprofile="+a.profile, "./...")
	packages = map[string]testedPackage{}
	scanner := bufio.NewScanner(strings.NewReader(printed))
	for scanner.Scan() {
		var e struct{ Action, Package, Test, Output string }
		require.NoError(a.t, json.Unmarshal(scanner.Bytes(), &e))
		p := packages[e.Package]
		if _, after, ok := strings.Cut(e.Output, "coverage: "); ok && e.Test == "" {
			p.coverage, _, _ = strings.Cut(after, " ")
		}
		counted := map[string]figures{"pass": {Run: 1, Passed: 1}, "fail": {Run: 1, Failed: 1}, "skip": {Run: 1, Skipped: 1}}[e.Action]
		if e.Test != "" {
			p.Run, p.Passed, p.Failed, p.Skipped = p.Run+counted.Run, p.Passed+counted.Passed, p.Failed+counted.Failed, p.Skipped+counted.Skipped
			all.Run, all.Passed, all.Failed, all.Skipped = all.Run+counted.Run, all.Passed+counted.Passed, all.Failed+counted.Failed, all.Skipped+counted.Skipped
		}
		packages[e.Package] = p
	}
	require.NoError(a.t, scanner.Err())
	require.NotZero(a.t, all.Passed)
	return packages, all
}

// total is the coverage of all packages, in per cent.
func (a *answers) total() string {
	words := strings.Fields(goOutput(a.t, a.dir, "tool", "cover", "-func="+a.profile))
	return words[len(words)-1]
}

// exports counts what the compiler has exported.
func (a *answers) exports(p goPackage) (n figures) {
	files := map[string]string{}
	for _, dependency := range a.list("-export", "-deps", p.ImportPath) {
		files[dependency.ImportPath] = dependency.Export
	}
	compiled, err := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }).Import(p.ImportPath)
	require.NoError(a.t, err)
	for _, name := range compiled.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch object := compiled.Scope().Lookup(name).(type) {
		case *types.Func:
			n.Funcs++
		case *types.Const:
			n.Consts++
		case *types.Var:
			n.Vars++
		case *types.TypeName:
			n.Types++
			if named, ok := object.Type().(*types.Named); ok && !object.IsAlias() {
				for method := range named.Methods() {
					if method.Exported() {
						n.Methods++
					}
				}
			}
		}
	}
	return n
}
