package cli_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/backup"
	"github.com/maestro-hive/maestro/workflows"
)

const hiveTeam = `
version: 1
name: shortener
personas:
  analyst: {role: Analyst, agent: writer, instructions: "Write requirements."}
  architect: {role: Architect, agent: writer, instructions: "Design it."}
  dev: {role: Developer, agent: coder, instructions: "Write code."}
phases:
  - {name: requirements, personas: [analyst]}
  - {name: design, personas: [analyst, architect]}
  - {name: implementation, personas: [dev], produces: [code.txt]}
`

// hiveSample is a checkpoint as Maestro Hive wrote it.
func hiveSample(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../store/hiveimport/testdata/checkpoint_design.json")
	require.NoError(t, err)
	return path
}

func TestASessionMovesToAnotherStore(t *testing.T) {
	t.Parallel()
	here := newDesk(t).withServer()
	there := newDesk(t).withAnotherServer(here.namespace)
	broken := map[string]string{"writer": writerScript, "coder": "exit 9"}
	here.withWorker(broken)
	teamFile := here.file("team.yaml", twoTeam)
	here.must(1, "run", teamFile, "Make it so.", "--session", "s-1", "--watch")
	archive := filepath.Join(here.dir, "s-1.maestro.tar.gz")
	require.Contains(t, here.must(0, "checkpoints", "export", "s-1"), "2 checkpoints")
	require.FileExists(t, archive)
	here.ends(2, "already exists", "checkpoints", "export", "s-1")
	here.ends(2, `session "s-2" not found in the store in `, "checkpoints", "export", "s-2")

	there.withWorker(map[string]string{"writer": "exit 9", "coder": coderScript})
	there.must(0, "checkpoints", "import", archive)
	there.ends(2, "choose another --session", "checkpoints", "import", archive)
	there.must(0, "checkpoints", "import", archive, "--session", "copy")
	for _, sessionID := range []string{"s-1", "copy"} {
		there.must(0, "resume", sessionID, "--watch")
		s := there.status(sessionID)
		require.Equal(t, session.Completed, s.Status)
		require.Equal(t, session.Restored, s.Phases[0].Assignments[0].Status, "the first phase's work came along")
	}
	require.Contains(t, there.must(0, "checkpoints", "verify", "--all"), "all intact")

	// A store is not mistaken for another.
	astray := *there
	astray.t = t
	astray.set("TEMPORAL_ADDRESS", here.variable("TEMPORAL_ADDRESS"))
	astray.ends(2, "belongs to store", "resume", "s-1")
}

func TestWhatCannotBeImportedIsSaid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.emptyStore()
	teamFile := d.file("team.yaml", hiveTeam)
	other := d.file("two.yaml", twoTeam)
	junk := d.file("junk.txt", "hello")
	archive := d.file("cut.tar.gz", "\x1f\x8b\x08\x00")
	list := d.file("list.json", `[1]`)
	unrelated := d.file("other.json", `{"a": 1}`)
	cut := d.file("cut.json", `{"checkpoint_metadata": {`)
	for _, c := range []struct {
		says string
		args []string
	}{
		{"no such file", []string{"nowhere"}},
		{"neither an archive", []string{junk}},
		{"neither an archive", []string{list}},
		{"neither an archive", []string{unrelated, "--team", teamFile}},
		{cut + ": line 1: unexpected end of JSON input", []string{cut, "--team", teamFile}},
		{archive + ": it is no archive", []string{archive}},
		{"which includes its team", []string{archive, "--team", teamFile}},
		{"give the team that continues it with --team", []string{hiveSample(t)}},
		{`workflow_context.phase_results.design: team pair has no phase "design"`, []string{hiveSample(t), "--team", other}},
		{"--session", []string{hiveSample(t), "--team", teamFile, "--session", "../x"}},
	} {
		d.ends(2, c.says, append([]string{"checkpoints", "import"}, c.args...)...)
	}
	require.NoDirExists(t, filepath.Join(d.state, "sessions"))
}

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

	prune := []string{"checkpoints", "prune", "--keep", "1", "--older-than", "1ms"}
	d.prints(`{"dry_run": true, "checkpoints": 2}`, append(prune, "--dry-run")...)
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
	for says, args := range map[string]string{
		"--keep: 0":                     "--keep 0",
		"--older-than: -1s":             "--older-than -1s",
		"exclude each other":            "--dry-run --schedule 24h",
		"excludes --keep":               "--schedule off --keep 2",
		`"daily" is neither a duration`: "--schedule daily",
		`"1s" is neither a duration`:    "--schedule 1s",
	} {
		d.ends(2, says, append([]string{"checkpoints", "prune"}, strings.Fields(args)...)...)
	}
	d.ends(4, "maestro dev", "checkpoints", "prune")
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

// TestASessionOfARestoredBackupIsRestarted restores a backup that Temporal is ahead of: it has seen the end of a phase that the
// backup does not have, and still runs the session. The worker restarts it.
func TestASessionOfARestoredBackupIsRestarted(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	gate := func(phase string) string { return filepath.Join(d.dir, "gate-"+phase) }
	script := func(phase string) string {
		return fmt.Sprintf("echo %s >> %s/begun; while test ! -e %s; do sleep 0.05; done; echo x > code.txt; mkdir -p docs; echo x > "+
			"docs/x.md\n", phase, d.dir, gate(phase))
	}
	scripts := map[string]string{"writer": script("think"), "coder": script("build")}
	w := d.withWorker(scripts)
	begun := func(lines string) {
		until(t, func() bool { data, _ := os.ReadFile(filepath.Join(d.dir, "begun")); return string(data) == lines },
			"the phases did not begin: %s", lines)
	}
	d.must(0, "run", d.file("team.yaml", twoTeam), "make it", "--session", "s")
	begun("think\n")
	var made backup.Report
	to := filepath.Join(d.dir, "backup.tar.zst")
	d.json(&made, "backup", to)
	require.NotEmpty(t, made.Database)
	require.NoError(t, os.WriteFile(gate("think"), nil, 0o600))
	begun("think\nbuild\n")
	require.Contains(t, d.run("restore", to).stderr.String(), "is not damaged")
	w.interrupt()
	w.wait()

	d.set("MAESTRO_STATE_DIR", filepath.Join(d.dir, "restored"))
	require.Contains(t, d.must(0, "restore", to), "    s (namespace ")
	d.withWorker(scripts)
	require.NoError(t, os.WriteFile(gate("build"), nil, 0o600))
	d.becomes("s", in(session.Completed))
	begun("think\nbuild\nthink\nbuild\n")
	require.Contains(t, d.must(0, "checkpoints", "verify", "--all"), "all intact")
}
