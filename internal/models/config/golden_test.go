package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what the loaders say about testdata into the .txt files beside it")

// golden compares what a loader says about a file with the text beside it.
func golden(t *testing.T, dir string, load func(path string) error) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			err := load(file)
			require.Error(t, err)
			var problems *Problems
			require.ErrorAs(t, err, &problems)
			got := err.Error() + "\n"
			want := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(want, []byte(got), 0o600))
			}
			expected, err := os.ReadFile(want)
			require.NoError(t, err)
			require.Equal(t, string(expected), got)
		})
	}
}

func TestBadTeams(t *testing.T) {
	t.Parallel()
	golden(t, "team", func(path string) error {
		_, err := LoadTeam(path)
		return err
	})
}
