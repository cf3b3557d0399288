package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/golden"
)

// goldens compares what a loader says about a file with the text beside it.
func goldens(t *testing.T, dir string, load func(path string) error) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			err := load(file)
			var problems *Problems
			require.ErrorAs(t, err, &problems)
			golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func TestBadTeams(t *testing.T) {
	t.Parallel()
	goldens(t, "team", func(path string) error {
		_, err := LoadTeam(path)
		return err
	})
}

// TestGoodFiles has the document of what is read from each beside it, with defaults, with instructions from other files, and with
// further fields as the data that JSON's reader would make of them.
func TestGoodFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/good/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 8)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var read any
		if strings.Contains(string(text), "\nagents:") {
			worker, err := LoadWorker(file)
			require.NoError(t, err)
			require.True(t, filepath.IsAbs(worker.Dir))
			worker.Dir, read = "", worker
		} else {
			read, err = LoadTeam(file)
			require.NoError(t, err)
		}
		document, err := json.MarshalIndent(read, "", "  ")
		require.NoError(t, err)
		golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".json", string(document)+"\n")
	}
}

func TestBadWorkers(t *testing.T) {
	t.Parallel()
	goldens(t, "worker", func(path string) error {
		_, err := LoadWorker(path)
		return err
	})
}

// FuzzWorker: no text brings the loader down, and every configuration that is
// accepted is without problems, also with its defaults.
func FuzzWorker(f *testing.F) {
	seed(f, "worker")
	f.Fuzz(func(t *testing.T, data []byte) {
		src, problem := newSource("w.yaml", data)
		if problem != nil {
			return
		}
		cfg, err := parseWorker(src, "/")
		if err == nil {
			require.Empty(t, cfg.Problems())
		}
	})
}
