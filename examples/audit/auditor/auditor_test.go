package main

import (
	"bytes"
	"encoding/json"
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
			"# example.com/m/store\nstore/b.go:7:2: not enough arguments in call to f\n\thave ()\n\twant (int)\ntoo many errors\n",
			[]problem{{
				Package: "example.com/m/store", File: "store/b.go", Line: 7, Column: 2,
				Message: "not enough arguments in call to f\n\thave ()\n\twant (int)",
			}},
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
		require.Equal(t, c.want, parseProblems(c.output, "/w/m"), name)
	}
}

// left is a directory in which an earlier phase has left a document.
func left(t *testing.T, document string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "audit"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "audit/build.json"), []byte(document), 0o600))
	return dir
}

// TestRun holds the auditor to an agent's contract.
func TestRun(t *testing.T) {
	t.Parallel()
	problems := []problem{{File: "a.go", Line: 3, Column: 1, Message: "undefined: x"}, {File: "b.go", Line: 1, Message: "torn"}}
	build, err := json.Marshal(buildDocument{Packages: 2, Problems: problems})
	require.NoError(t, err)
	dir := left(t, string(build))
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
	sound := left(t, `{"builds": true}`)
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
