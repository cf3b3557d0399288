package main

import (
	"bytes"
	"encoding/json"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		output string
		want   []problem
	}{
		"the compiler": {
			"# example.com/m/store\n./store.go:4:9: undefined: x\nstore/b.go:7:2: not enough arguments in call to f\n\thave ()\n\twant " +
				"(int)\ntoo many errors\n",
			[]problem{
				{Package: "example.com/m/store", File: "store.go", Line: 4, Column: 9, Message: "undefined: x"},
				{
					Package: "example.com/m/store", File: "store/b.go", Line: 7, Column: 2,
					Message: "not enough arguments in call to f\n\thave ()\n\twant (int)",
				},
			},
		},
		"vet, of a package with its tests": {
			"# example.com/m/a\n# [example.com/m/a]\nvet: a/a_test.go:3:27: undefined: B\n# example.com/m/b " +
				"[example.com/m/b.test]\nb/b.go:1:1: expected 'package'\n",
			[]problem{
				{Package: "example.com/m/a", File: "a/a_test.go", Line: 3, Column: 27, Message: "undefined: B"},
				{Package: "example.com/m/b", File: "b/b.go", Line: 1, Column: 1, Message: "expected 'package'"},
			},
		},
		"cover": {
			"# example.com/m/p\n2026/11/21 20:41:54 cover: /w/m/p.go: /w/m/p.go:2:9: expected ')', found '{'\n",
			[]problem{{Package: "example.com/m/p", File: "p.go", Line: 2, Column: 9, Message: "expected ')', found '{'"}},
		},
		"elsewhere": {
			"../../x/m/store/store.go:4:9: undefined: x\n",
			[]problem{{File: "store/store.go", Line: 4, Column: 9, Message: "undefined: x"}},
		},
		"go.mod": {
			"go: errors parsing go.mod:\ngo.mod:3: unknown directive: foo\n",
			[]problem{{File: "go.mod", Line: 3, Message: "unknown directive: foo"}},
		},
		"nothing of places": {"go: downloading example.com/x v1.0.0\n  indented: nothing before it\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, parseProblems(c.output, "/w/m"))
		})
	}
}

// TestProblemsOf holds that a failure is never without a word.
func TestProblemsOf(t *testing.T) {
	t.Parallel()
	a := &auditor{root: module(t, map[string]string{"go.mod": "module m\n\ngo 1.99\n\nrequire (\n\texample.com/x v1.0.0 // " +
		"indirect\n)\n"})}
	require.Equal(t, []problem{{Message: "the toolchain has failed without a word"}}, a.problemsOf("\n"))
	require.Equal(t, []problem{{Message: "ld: cannot find -lodd\ncollect2: error"}},
		a.problemsOf("go: downloading x\nld: cannot find -lodd\ncollect2: error\n"))
	require.Equal(t, []problem{{File: "go.mod", Line: 3, Message: "requires go >= 1.99 (running go 1.26.8; GOTOOLCHAIN=local)"}},
		a.problemsOf("go: go.mod requires go >= 1.99 (running go 1.26.8; GOTOOLCHAIN=local)\n"))
}

// TestProblemsOfModules places what is said of a module where it is required.
func TestProblemsOfModules(t *testing.T) {
	t.Parallel()
	a := &auditor{root: module(t, map[string]string{"go.mod": "module m\n\nrequire \"example.com/x\" v1.0.0\n\nrequire " +
		"(\n\texample.com/y v1.0.0 // indirect\n)\n"})}
	for want, output := range map[string]string{
		"go.mod:3: example.com/x@v1.0.0: missing go.sum entry for go.mod file": "go: example.com/x@v1.0.0: missing go.sum entry for " +
			"go.mod file\n",
		"go.mod:6: example.com/y@v1.0.0: module lookup disabled": "go: example.com/y@v1.0.0: module lookup disabled\n",
		"example.com/z@v1.0.0: module lookup disabled":           "go: example.com/z@v1.0.0: module lookup disabled\n",
	} {
		require.Equal(t, want, a.problemsOf(output)[0].String())
	}
}

// TestFindings reads what go vet -json has printed in different versions.
func TestFindings(t *testing.T) {
	t.Parallel()
	a := &auditor{root: "/w/m"}
	findings, rest, err := a.findings(`# m/good
{
	"m/good [m/good.test]": {
		"printf": [{"posn": "/w/m/good/g.go:3:28", "end": "/w/m/good/g.go:3:30", "message": "wrong type"}],
		"copylocks": {"error": "gave up"}
	}
}
# m/bad
vet: bad/bad.go:3:16: undefined: y
{}
`)
	require.NoError(t, err)
	require.Equal(t, []problem{{
		Package: "m/good", Analyzer: "printf", File: "good/g.go", Line: 3, Column: 28,
		Message: "wrong type",
	}}, findings)
	require.Contains(t, rest, "vet: bad/bad.go:3:16: undefined: y\n")
	require.Contains(t, rest, `m/good [m/good.test]: copylocks: {"error": "gave up"}`)
	_, _, err = a.findings("{\n\"m\": 1}\n")
	require.ErrorContains(t, err, "go vet prints what is no JSON")
}

func TestReadProfile(t *testing.T) {
	t.Parallel()
	packages, err := readProfile(strings.NewReader("mode: set\nm/a/a.go:1.2,3.4 3 0\nm/a/a.go:1.2,3.4 3 1\nm/a/b.go:5.1,6.2 1 " +
		"0\nm/c.go:1.1,2.2 2 7\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]statements{"m/a": {Total: 4, Covered: 3}, "m": {Total: 2, Covered: 2}}, packages)
	require.Equal(t, "75.0 %", percentage(packages["m/a"].percent()))
	require.Equal(t, "–", percentage(statements{}.percent()))
	_, err = readProfile(strings.NewReader("m/a.go\n"))
	require.ErrorContains(t, err, `the coverage profile has the line "m/a.go"`)
}

// events are lines of go test -json.
func events(t *testing.T, list ...event) string {
	t.Helper()
	var b strings.Builder
	for _, e := range list {
		require.NoError(t, json.NewEncoder(&b).Encode(e))
	}
	return b.String()
}

func TestRunOfTests(t *testing.T) {
	t.Parallel()
	run := newTestRun(&auditor{root: "/tmp/copy", progress: io.Discard})
	long := strings.Repeat("x", 3*maxTail)
	require.NoError(t, run.read(strings.NewReader("not JSON\n"+events(t,
		event{Action: "start", Package: "m/a"},
		event{Action: "run", Package: "m/a", Test: "TestFine"}, event{Action: "pass", Package: "m/a", Test: "TestFine"},
		event{Action: "run", Package: "m/a", Test: "TestSad"}, event{Action: "run", Package: "m/a", Test: "TestSad/sub"},
		event{Action: "output", Package: "m/a", Test: "TestSad/sub", Output: long + "/tmp/copy/a_test.go:3: the end\n"},
		event{Action: "fail", Package: "m/a", Test: "TestSad/sub"}, event{Action: "fail", Package: "m/a", Test: "TestSad"},
		event{Action: "run", Package: "m/a", Test: "TestCut"},
		event{Action: "output", Package: "m/a", Output: "exit status 3\n"},
		event{Action: "fail", Package: "m/a", Elapsed: 1.5},
		event{Action: "build-output", ImportPath: "m/b [m/b.test]", Output: "# m/b [m/b.test]\n"},
		event{Action: "build-output", ImportPath: "m/b [m/b.test]", Output: "b/b_test.go:3:1: undefined: B\n"},
		event{Action: "fail", Package: "m/b", FailedBuild: "m/b [m/b.test]"},
		event{Action: "skip", Package: "m/c"},
	))))
	doc := run.document("", false)
	require.Equal(t, testCounts{Run: 4, Passed: 1, Failed: 3, TopLevel: 3}, doc.Totals)
	outcomes := map[string]string{}
	for _, p := range doc.Packages {
		outcomes[p.Path] = p.Outcome
	}
	require.Equal(t, map[string]string{"m/a": "failed", "m/b": "not run", "m/c": "no tests"}, outcomes)
	require.Equal(t, []problem{{Package: "m/b", File: "b/b_test.go", Line: 3, Column: 1, Message: "undefined: B"}}, doc.Problems)
	require.Len(t, doc.Failures, 3)
	require.Equal(t, testFailure{Package: "m/a", Test: "TestCut", Output: "(did not end)\nexit status 3\n"}, doc.Failures[0])
	sub := doc.Failures[2].Output
	require.True(t, strings.HasPrefix(sub, "…\n"))
	require.True(t, strings.HasSuffix(sub, "xa_test.go:3: the end\n"), "the copy's path is left out")
	require.LessOrEqual(t, len(sub), maxTail+len("…\n"))
}

// TestTestsThatCannotBegin says why where go test says it on standard error alone.
func TestTestsThatCannotBegin(t *testing.T) {
	t.Parallel()
	run := newTestRun(&auditor{root: "/tmp/copy", progress: io.Discard})
	require.NoError(t, run.read(strings.NewReader("")))
	require.Equal(t, []problem{{File: "go.mod", Line: 2, Message: "unknown directive: foo"}},
		run.document("go: errors parsing go.mod:\ngo.mod:2: unknown directive: foo\n", false).Problems)
	require.Empty(t, run.document("go: warning: \"./...\" matched no packages\n", true).Problems)
}

// module writes a module and returns its directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	return dir
}

func TestSurface(t *testing.T) {
	t.Parallel()
	dir := module(t, map[string]string{
		"a.go": `package a

// Doc is not part of it.
type (
	Pair[K, V any] struct{ Key K }
	Reader = interface{ Read() }
	Kind int
	hidden struct{}
)

const (
	One, two Kind = iota, iota
	Three
)

var Func = func() {}

func New[T any](first T,
	rest ...T) *Pair[T, T] { return nil }
func (p *Pair[K, V]) Get() K { return p.Key }
func (p *Pair[_, _]) unexported() {}
func (Kind) String() string { return "" }
func (hidden) Exported() {}
`,
		"torn.go": "package a\n\nfunc Whole() {}\n\nfunc (\n",
	})
	var s surface
	s.fset = token.NewFileSet()
	problems, err := s.read(dir, "a.go")
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, exported{Funcs: 1, Types: 3, Methods: 2, Consts: 2, Vars: 1}, s.exported)
	require.Equal(t, []string{
		"type Pair[K, V any] struct", "type Reader = interface", "type Kind int", "const One Kind", "const Three", "var Func",
		"func New[T any](first T, rest ...T) *Pair[T, T]", "func (p *Pair[K, V]) Get() K", "func (Kind) String() string",
	}, s.lines)
	problems, err = s.read(dir, "torn.go")
	require.NoError(t, err)
	require.NotEmpty(t, problems)
	require.Equal(t, "torn.go", problems[0].File)
	require.Equal(t, 2, s.Funcs, "what can be read of a torn file counts")
}

func TestMeasureFile(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]struct {
		lines     int
		generated bool
	}{
		"": {0, false},
		"// Code generated by x. DO NOT EDIT.\n\npackage a\n":               {3, true},
		"package a\n\nconst T = `\n// Code generated by x. DO NOT EDIT.\n`": {5, false},
	} {
		lines, generated, err := measureFile(filepath.Join(module(t, map[string]string{"a.go": content}), "a.go"))
		require.NoError(t, err)
		require.Equal(t, want.lines, lines)
		require.Equal(t, want.generated, generated)
	}
}

func TestDirective(t *testing.T) {
	t.Parallel()
	modfile := []byte("// module wrong\nmodule \"example.com/m\" // the name\n\ngo 1.24\ntoolchain go1.26.0\n")
	require.Equal(t, "example.com/m", directive(modfile, "module"))
	require.Equal(t, "1.24", directive(modfile, "go"))
	require.Empty(t, directive(modfile, "retract"))
}

// What a package lacks is said of the first that it keeps from being compiled; it keeps
// all that import it from that, too.
func TestBrokenPackages(t *testing.T) {
	t.Parallel()
	l := loaded{
		lacking: map[string]bool{"m/config": true},
		imports: map[string][]string{
			"m/config": {"fmt"}, "m/store": nil, "m/server": {"m/store", "fmt"}, "m": {"m/server"},
			"m/text": {"fmt"},
		},
	}
	require.Equal(t, []string{"m/config"}, l.broken(nil))
	require.Equal(t, []string{"m", "m/config", "m/server", "m/store"},
		l.broken([]problem{{Package: "m/store", Message: "undefined: x"}}))
	require.Equal(t, []string{"m/config"}, l.broken([]problem{{Message: "no space left on device"}}), "that is no package's")
}

// TestRun holds the auditor to an agent's contract.
func TestRun(t *testing.T) {
	t.Parallel()
	problems := []problem{{File: "a.go", Line: 3, Column: 1, Message: "undefined: x"}, {File: "b.go", Line: 1, Message: "torn"}}
	build, err := json.Marshal(buildDocument{Packages: 2, Problems: problems})
	require.NoError(t, err)
	dir := module(t, map[string]string{"audit/build.json": string(build)})
	file := filepath.Join(t.TempDir(), "result.json")
	environ := []string{"MAESTRO_RESULT=/nowhere", "MAESTRO_RESULT=" + file}
	err = run([]string{"gate", dir}, strings.NewReader(`{"requirement": "Audit"}`), io.Discard, environ)
	require.EqualError(t, err, "the module does not build: a.go:3:1: undefined: x (and 1 more, see audit/report.md)")
	var r result
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.Equal(t, &failure{Category: "syntax", Message: "the module does not build: a.go:3:1: undefined: x (and 1 more, see " +
		"audit/report.md)", Output: "a.go:3:1: undefined: x\nb.go:1: torn\n"}, r.Error)

	var said bytes.Buffer
	sound := module(t, map[string]string{"audit/build.json": `{"builds": true}`})
	require.NoError(t, run([]string{"gate", sound}, strings.NewReader(""), &said, nil))
	require.Equal(t, "The module builds.\n", said.String())

	for want, args := range map[string][]string{
		"usage: auditor api|build|gate|inventory|report|test|vet DIR": {"look", dir},
		"an earlier phase should have left audit/inventory.json":      {"api", dir},
	} {
		require.ErrorContains(t, run(args, strings.NewReader(""), io.Discard, nil), want)
	}
	require.ErrorContains(t, run([]string{"gate", dir}, strings.NewReader("brief"), io.Discard, nil),
		"the brief on standard input is no JSON object")
}
