package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/backup"
)

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
	var status session.Status
	d.withWorker(scripts)
	require.NoError(t, os.WriteFile(gate("build"), nil, 0o600))
	until(t, func() bool { d.json(&status, "status", "s"); return status.Status == session.Completed },
		"the session did not complete")
	begun("think\nbuild\nthink\nbuild\n")
	require.Contains(t, d.must(0, "checkpoints", "verify", "--all"), "all intact")
}
