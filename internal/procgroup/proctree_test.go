package procgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatIsReadWhateverTheNameHolds(t *testing.T) {
	t.Parallel()
	rest := " S 1 7 8 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 3 0 12345 0 0"
	for _, name := range []string{"sh", "a) S 9 9 9", "((", "x y"} {
		p, ok := parseStat(42, []byte("42 ("+name+")"+rest))
		require.True(t, ok)
		require.Equal(t, proc{pid: 42, parent: 1, group: 7, session: 8, threads: 3, started: 12345}, p)
	}
	for _, broken := range []string{"", "42 (sh", "42 (sh) S 1 2", "42 (sh) S x" + rest} {
		_, ok := parseStat(42, []byte(broken))
		require.False(t, ok)
	}
}

func TestProgramsAreFoundAsAShellWould(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o644))
	for _, c := range []struct{ program, path, want, err string }{
		{"tool", "/nowhere:" + dir, filepath.Join(dir, "tool"), ""},
		{"./tool", "", filepath.Join(dir, "tool"), ""},
		{filepath.Join(dir, "tool"), "", filepath.Join(dir, "tool"), ""},
		{"plain", dir, "", "not found in PATH"},
		{"./plain", "", "", "permission denied"},
		{"./gone", "", "", "no such file"},
		{dir, "", "", "is a directory"},
		{"tool", "." + string(filepath.ListSeparator) + "/nowhere", "", "not found"},
	} {
		got, err := LookUp(c.program, dir, []string{"PATH=" + c.path})
		require.Equal(t, c.want, got)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
		} else {
			require.NoError(t, err)
		}
	}
}
