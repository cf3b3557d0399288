package cas_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage/storagetest"
)

// TestATreeIsFilledOnAnotherHost: what one host collects, another one fills a directory with, from few objects.
func TestATreeIsFilledOnAnotherHost(t *testing.T) {
	t.Parallel()
	const dirs, files = 60, 50
	bucket, from, to := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "tree")
	for i := range dirs {
		dir := filepath.Join(from, fmt.Sprintf("a%d/b/c%d", i%7, i))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for n := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), fmt.Append(nil, "file ", i, n), 0o600))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(from, "large"), storagetest.Random(1<<20), 0o600))
	host := storagetest.Hosts(t, &storagetest.Clock{}, "file://"+bucket, 0)
	one, other := cas.New(host(), cas.Options{}), cas.New(host(), cas.Options{})
	out, err := one.Collect(t.Context(), session.Collect{Dir: from})
	require.NoError(t, err)
	objects, err := filepath.Glob(filepath.Join(bucket, "content/*/*"))
	require.NoError(t, err)
	require.Len(t, objects, 4, "whose they are, the large file, the delta, and all other files and directories")

	require.NoError(t, other.Intact(t.Context(), out.Output))
	require.NoError(t, other.Materialise(t.Context(), out.Output, to))
	require.NoError(t, os.Rename(bucket, bucket+"-away"))
	require.NoError(t, other.Materialise(t.Context(), out.Output, to), "all is on this host by now")
	_, err = other.Collect(t.Context(), session.Collect{Base: out.Output, Dir: to})
	require.Error(t, err, "the bucket is away")
	require.NotErrorIs(t, err, session.ErrNotFound, "which is an outage")
	require.NoError(t, os.Rename(bucket+"-away", bucket))
	again, err := other.Collect(t.Context(), session.Collect{Base: out.Output, Dir: to})
	require.NoError(t, err)
	require.Equal(t, out.Output, again.Output)
}
