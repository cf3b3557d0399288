package room

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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
