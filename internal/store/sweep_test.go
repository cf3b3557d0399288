package store

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// TestWhatIsTakenUpInTheMiddleOfAPruneStays lets others begin to use what a prune
// has found to be waste, between its finding and its removing.
func TestWhatIsTakenUpInTheMiddleOfAPruneStays(t *testing.T) {
	t.Parallel()
	now := time.Now() // files bear the machine's time
	s, err := Create(filepath.Join(t.TempDir(), "store"), Options{Clock: func() time.Time { return now }})
	require.NoError(t, err)
	put := func(text string) cas.Entry {
		name, err := s.Content.PutBlob(t.Context(), []byte(text))
		require.NoError(t, err)
		return cas.Entry{SHA256: name, Size: int64(len(text))}
	}
	manifest := func(e cas.Entry) spec.Digest {
		name, err := s.Content.PutManifest(t.Context(), cas.Manifest{"a.txt": e})
		require.NoError(t, err)
		return name
	}
	plain, waste := put("used again itself"), put("waste")
	inTree, inRead := put("named by a tree that is stored again"), put("named by a checkpoint that is read")
	tree, read := manifest(inTree), manifest(inRead)
	delta, err := s.Content.PutDelta(t.Context(), cas.Delta{"a.txt": {Entry: inTree}})
	require.NoError(t, err)
	data, err := encodeDigested(session.Checkpoint{
		Schema: session.CheckpointSchema, CurrentPhase: "build", Tree: read, Workspace: read,
		Assignments: []session.CheckpointAssignment{{BasedWork: session.BasedWork{Work: session.Work{Delta: delta}}}},
	})
	require.NoError(t, err)
	checkpoint, err := s.Content.PutBlob(t.Context(), data)
	require.NoError(t, err)
	now = now.Add(48 * time.Hour)

	p := &pruning{store: s, marks: newVerification(s), horizon: now.Add(-youngBlob)}
	structured, loose, err := p.candidates(t.Context())
	require.NoError(t, err)
	var names []spec.Digest
	for _, c := range structured {
		names = append(names, c.name)
	}
	require.ElementsMatch(t, []spec.Digest{tree, read, delta, checkpoint}, names)
	require.Len(t, loose, 4)

	manifest(inTree)
	_, err = s.Checkpoint(t.Context(), checkpoint)
	require.NoError(t, err)
	require.NoError(t, p.sweepTrees(t.Context(), structured))
	put("used again itself")
	_, err = p.remove(t.Context(), p.unneeded(loose), false)
	require.NoError(t, err)

	kept := []spec.Digest{plain.SHA256, inTree.SHA256, inRead.SHA256, tree, read, delta, checkpoint}
	found, err := s.blobs.StatBlobs(t.Context(), append(kept, waste.SHA256)...)
	require.NoError(t, err)
	require.ElementsMatch(t, kept, slices.Collect(maps.Keys(found)))
	require.Equal(t, 1, p.report.Blobs)

	// A blob that is gone is not taken for stored.
	require.ErrorIs(t, s.blobs.UseBlob(t.Context(), waste.SHA256), storage.ErrNotFound)
}
