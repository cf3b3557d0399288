package main

import (
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
