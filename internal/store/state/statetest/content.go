package statetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// blobsAreFound adds more blobs than one statement is about, and finds, lists and removes them.
func blobsAreFound(t *testing.T, b *bench) {
	const blobs = 2345
	now, err := b.Clock(t.Context())
	require.NoError(t, err)
	_, has, err := b.Installation(t.Context())
	require.NoError(t, err)
	require.False(t, has)
	var rows []state.Blob
	var all []spec.Digest
	for i := range blobs {
		digest := spec.Digest(fmt.Sprintf("%064x", i))
		at := int64(i)
		rows = append(rows, state.Blob{Digest: digest, Size: at, Object: fmt.Sprint("o", i%3), Start: at, Kind: state.RootTree})
		all = append(all, digest)
	}
	require.ErrorIs(t, b.AddBlobs(t.Context(), now.Add(-state.UploadTime-time.Minute), rows), state.ErrLate)
	live, _, err := b.UseBlobs(t.Context(), all)
	require.NoError(t, err)
	require.Empty(t, live)
	require.NoError(t, b.AddBlobs(t.Context(), now, rows))
	again := []state.Blob{{Digest: all[7], Size: 7, Object: "another"}}
	require.NoError(t, b.AddBlobs(t.Context(), now, again), "a row that exists stays")
	_, has, err = b.Installation(t.Context())
	require.NoError(t, err)
	require.True(t, has)

	found, err := b.FindBlobs(t.Context(), append(all, "no such")...)
	require.NoError(t, err)
	require.Len(t, found, blobs)
	for i, row := range rows {
		require.WithinDuration(t, now, found[row.Digest].Used(), time.Minute)
		row.UsedAt = found[row.Digest].UsedAt
		require.Equal(t, row, found[all[i]])
	}
	listed, err := b.BlobsAfter(t.Context(), all[blobs-10])
	require.NoError(t, err)
	require.Len(t, listed, 9)
	unused, err := b.UnusedObjects(t.Context(), []string{"o1", "another", "o2"})
	require.NoError(t, err)
	require.Equal(t, []string{"another"}, unused)

	require.NoError(t, b.RemoveBlob(t.Context(), state.Blob{Digest: all[3], Object: "another", Start: 3}))
	require.NoError(t, b.RemoveBlob(t.Context(), rows[4]))
	live, _, err = b.UseBlobs(t.Context(), all)
	require.NoError(t, err)
	require.Len(t, live, blobs-1)
	require.True(t, live[all[3]], "it is in another object by now")

	later := now.Add(time.Hour)
	removed, used, err := b.SweepBlobs(t.Context(), all, now.Add(-time.Hour), false)
	require.NoError(t, err)
	require.Empty(t, removed)
	require.Len(t, used, blobs-1)
	removed, used, err = b.SweepBlobs(t.Context(), all, later, true)
	require.NoError(t, err)
	require.Len(t, removed, blobs-1)
	require.Empty(t, used)
}
