package caches_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/sandbox/caches"
)

// TestBasesThatNobodyUsesAreRemoved, wherever the caches are.
func TestBasesThatNobodyUsesAreRemoved(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "state[1]", "caches") // a path is no pattern
	require.NoError(t, os.MkdirAll(root, 0o700))
	base := caches.NewBase(root, "default.web", "go", diskspace.Used{})
	held, err := base.Hold(true)
	require.NoError(t, err)
	written := filepath.Join(root, "written")
	fill(t, written, 1)
	require.NoError(t, base.Add(t.Context(), held, written, "check", "input", time.Now()))
	require.False(t, caches.FreeBases(root), "it is in use")
	held.Release()
	require.True(t, caches.FreeBases(root))
	require.False(t, caches.FreeBases(root))
}
