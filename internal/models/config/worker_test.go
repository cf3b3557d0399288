package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
