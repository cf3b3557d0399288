package workdir_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
)

var (
	first  = spec.Digest(strings.Repeat("1", 64))
	second = spec.Digest(strings.Repeat("2", 64))
)

// TestWhatAnAgentLeftAboveLayers stays while an attempt starts from just that, and goes with any
// other start.
func TestWhatAnAgentLeftAboveLayers(t *testing.T) {
	t.Parallel()
	var held atomic.Int32
	d := workdir.New(workdir.Options{Root: t.TempDir(), Acquire: func(_ context.Context, manifest spec.Digest,
		_ ...spec.Digest,
	) ([]string, func(), error) {
		held.Add(1)
		return []string{"/layers/" + string(manifest)}, func() { held.Add(-1) }, nil
	}})
	require.True(t, d.HasLayers())
	w := made(t, d)
	require.False(t, d.IsLayered(w))
	write(t, filepath.Join(w.Tree, "copied"), nil)
	w = made(t, d)

	ctx, end := context.WithCancel(t.Context())
	laid, release, err := d.UseLayers(ctx, w, first)
	require.NoError(t, err)
	require.Equal(t, first, laid.Lower())
	require.NoFileExists(t, filepath.Join(w.Tree, "copied"))
	require.DirExists(t, laid.Layers.Work)
	write(t, filepath.Join(laid.Tree, "ignored"), nil)
	end()
	require.EqualValues(t, 1, held.Load(), "a process may use the layers after the end of the context")
	release()
	require.Zero(t, held.Load())

	// A worker may have been killed between the making of a note and its use.
	require.NoError(t, os.Symlink("stale", filepath.Join(filepath.Dir(w.Tree), "layered.new")))
	again, _, err := d.WithLayers(t.Context(), w)
	require.NoError(t, err)
	require.Equal(t, laid.Layers, again.Layers, "an attempt that was cut off continues there")
	d.NoteCollected(again, second)
	kept, _, err := d.UseLayers(t.Context(), w, second)
	require.NoError(t, err)
	require.Equal(t, first, kept.Lower())
	require.FileExists(t, filepath.Join(w.Tree, "ignored"), "it starts from what was collected here")
	_, _, err = d.UseLayers(t.Context(), w, second)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(w.Tree, "ignored"), "something may have worked there since")

	// The host has lost power since the tree was collected: files may be cut.
	write(t, filepath.Join(w.Tree, "ignored"), nil)
	note := filepath.Join(filepath.Dir(w.Tree), "layered")
	require.NoError(t, os.Remove(note))
	require.NoError(t, os.Symlink(string(first+" "+second)+" another-boot", note))
	require.True(t, d.IsLayered(w))
	_, _, err = d.UseLayers(t.Context(), w, second)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(w.Tree, "ignored"))

	fresh, _, err := d.MakeCheckDir(t.Context(), w, first)
	require.NoError(t, err)
	for _, dir := range []string{fresh.Tree, fresh.Home, fresh.Tmp} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	require.NoError(t, d.ClearCheckDir(w))
	require.NoDirExists(t, fresh.Tree)
	require.NoError(t, d.ForgetLayers(w))
	require.False(t, d.IsLayered(w))
	plain, _, err := d.WithLayers(t.Context(), w)
	require.NoError(t, err)
	require.Nil(t, plain.Layers)
}

// TestACheckWithoutLayers sees the agent's tree, and nothing of its HOME and TMPDIR.
func TestACheckWithoutLayers(t *testing.T) {
	t.Parallel()
	d := workdir.New(workdir.Options{Root: t.TempDir()})
	w := made(t, d)
	for _, dir := range []string{w.Tree, w.Home, w.Tmp} {
		write(t, filepath.Join(dir, "left"), nil)
	}
	fresh, release, err := d.MakeCheckDir(t.Context(), w, first)
	require.NoError(t, err)
	defer release()
	require.Equal(t, w.Tree, fresh.Tree)
	for _, dir := range []string{fresh.Home, fresh.Tmp} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	require.NoError(t, d.ClearCheckDir(w))
	require.FileExists(t, filepath.Join(w.Tree, "left"))
}
