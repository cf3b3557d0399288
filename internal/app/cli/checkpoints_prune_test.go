package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/workflows"
)

// age makes all blobs of the desk's store two days old.
func (d *desk) age() {
	d.t.Helper()
	old := time.Now().Add(-48 * time.Hour)
	require.NoError(d.t, filepath.WalkDir(filepath.Join(d.state, "blobs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return os.Chtimes(path, old, old)
	}))
}

// litter stores a blob that nobody needs and returns where it lies.
func (d *desk) litter(content string) string {
	d.t.Helper()
	s, err := store.Open(d.state, store.Options{Clock: time.Now})
	require.NoError(d.t, err)
	name, err := s.Content.PutBlob(d.t.Context(), []byte(content))
	require.NoError(d.t, err)
	return filepath.Join(d.state, "blobs", "sha256", string(name[:2]), string(name[2:]))
}

func TestPruning(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": writerScript, "coder": coderScript})
	d.must(0, "run", d.file("team.yaml", twoTeam), "Make it so.", "--session", "s-1", "--watch")
	waste := d.litter("waste")
	d.age()

	var report session.PruneReport
	prune := []string{"checkpoints", "prune", "--keep", "1", "--older-than", "1ms"}
	d.json(&report, append(prune, "--dry-run")...)
	require.True(t, report.DryRun)
	require.Equal(t, 2, report.Checkpoints)
	require.FileExists(t, waste)
	require.Contains(t, d.must(0, prune...), "2 checkpoints")
	require.NoFileExists(t, waste)
	require.Contains(t, d.must(0, "checkpoints", "verify", "--all"), "all intact")
	require.NotContains(t, d.must(0, "checkpoints", "list", "s-1"), "think")

	waste = d.litter("more waste")
	d.age()
	require.Contains(t, d.must(0, "checkpoints", "prune", "--schedule", "48h"), "every 48h")
	require.Contains(t, d.must(0, "checkpoints", "prune", "--schedule", "24h", "--keep", "3"), "every 24h0m0s")
	require.Contains(t, d.must(0, "doctor"), "every 24h0m0s")
	s, err := store.Open(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	require.NoError(t, d.temporal().ScheduleClient().GetHandle(t.Context(), workflows.PruneID(s.ID())).Trigger(t.Context(),
		client.ScheduleTriggerOptions{}))
	until(t, func() bool {
		_, err := os.Stat(waste)
		return os.IsNotExist(err)
	}, "the schedule did not prune")
	require.Contains(t, d.must(0, "checkpoints", "prune", "--schedule", "off"), "the schedule of store")
	require.Contains(t, d.must(0, "checkpoints", "prune", "--schedule", "off"), "the schedule of store")
	require.Contains(t, d.must(0, "doctor"), "no schedule")
}

func TestPruningIsAskedForSensibly(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.emptyStore()
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, "--keep: 0", []string{"--keep", "0"}},
		{2, "--older-than: -1s", []string{"--older-than", "-1s"}},
		{2, "exclude each other", []string{"--dry-run", "--schedule", "24h"}},
		{2, "excludes --keep", []string{"--schedule", "off", "--keep", "2"}},
		{2, "neither a duration", []string{"--schedule", "daily"}},
		{2, "neither a duration", []string{"--schedule", "1s"}},
		{4, "maestro dev", nil},
	} {
		got := d.run(append([]string{"checkpoints", "prune"}, c.args...)...)
		require.Equal(t, c.code, got.code, "%v: %s", c.args, got.stderr.String())
		require.Contains(t, got.stderr.String(), c.says)
	}
}

// emptyStore makes an empty store.
func (d *desk) emptyStore() {
	d.t.Helper()
	_, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(d.t, err)
}

// variable reads the commands' environment.
func (d *desk) variable(name string) (value string) {
	for _, entry := range d.environ {
		if len(entry) > len(name) && entry[:len(name)+1] == name+"=" {
			value = entry[len(name)+1:]
		}
	}
	return value
}
