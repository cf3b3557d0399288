package room

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyTheShimOfThisBuildIsUsed(t *testing.T) {
	t.Parallel()
	for prints, want := range map[string]string{
		"echo '" + Build() + "'": "",
		"echo go1.0 old":         `is of build "go1.0 old", this program of "` + Build() + `"`,
		"exit 1":                 "exit status 1",
	} {
		path := filepath.Join(t.TempDir(), ProgramName)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+prints+"\n"), 0o755))
		if err := tryProgram(path); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	require.ErrorContains(t, tryProgram("/nowhere/"+ProgramName), "/nowhere/maestro-shim: no such file")
}
