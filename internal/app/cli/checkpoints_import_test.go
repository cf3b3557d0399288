package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
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
	got := here.run("checkpoints", "export", "s-1")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "already exists")

	there.withWorker(map[string]string{"writer": "exit 9", "coder": coderScript})
	there.must(0, "checkpoints", "import", archive)
	got = there.run("checkpoints", "import", archive)
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "choose another --session")
	there.must(0, "checkpoints", "import", archive, "--session", "copy")
	for _, sessionID := range []string{"s-1", "copy"} {
		there.must(0, "resume", sessionID, "--watch")
		var s session.Status
		there.json(&s, "status", sessionID)
		require.Equal(t, session.Completed, s.Status)
		require.Equal(t, session.Restored, s.Phases[0].Assignments[0].Status, "the first phase's work came along")
	}
	require.Contains(t, there.must(0, "checkpoints", "verify", "--all"), "all intact")

	// A store is not mistaken for another.
	astray := *there
	astray.t = t
	astray.set("TEMPORAL_ADDRESS", here.variable("TEMPORAL_ADDRESS"))
	got = astray.run("resume", "s-1")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "belongs to store")
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
		got := d.run(append([]string{"checkpoints", "import"}, c.args...)...)
		require.Equal(t, 2, got.code, "%v: %s", c.args, got.stderr.String())
		require.Contains(t, got.stderr.String(), c.says)
	}
	require.NoDirExists(t, filepath.Join(d.state, "sessions"))
}
