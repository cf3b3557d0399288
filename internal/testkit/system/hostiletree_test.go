package system

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// asNobody has the world's programs run as nobody, who can get to its directory.
func (w *world) asNobody() {
	w.t.Helper()
	if os.Geteuid() != 0 {
		w.t.Skip("only root can start programs as another user")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		w.t.Skip("this host has no user nobody")
	}
	uid, err := strconv.Atoi(nobody.Uid)
	require.NoError(w.t, err)
	gid, err := strconv.Atoi(nobody.Gid)
	require.NoError(w.t, err)
	require.NoError(w.t, os.Chmod(programs, 0o755))
	for dir := w.dir; dir != filepath.Clean(os.TempDir()) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		require.NoError(w.t, os.Chmod(dir, 0o711))
	}
	require.NoError(w.t, filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	}))
	w.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// TestAHostileTreeEndsItsAttempt has agents leave trees that their worker, which is not
// root, cannot read or clear, with and without rooms: their sessions end, and wait for no store.
func TestAHostileTreeEndsItsAttempt(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{agent.IsolationNone, agent.IsolationRequired} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			hostileTrees(t, isolation)
		})
	}
}

func hostileTrees(t *testing.T, isolation string) {
	t.Helper()
	if isolation == agent.IsolationRequired {
		permitsRooms(t)
	}
	for name, c := range map[string]struct {
		does string
		want session.State
		why  string
	}{
		"tree":        {does: "chmod 000 .", want: session.Completed},
		"parent":      {does: "chmod 000 . ..", want: session.Completed},
		"home":        {does: "chmod 000 $HOME $TMPDIR", want: session.Completed},
		"all":         {does: "chmod 000 . .. ../.. ../../..", want: session.Completed},
		"directory":   {does: "mkdir -p d/e && echo x > d/e/f && chmod 000 d/e d", want: session.Completed},
		"ignore file": {does: "echo x > .gitignore && chmod 000 .gitignore", want: session.Completed},
		"pipe":        {does: "mkfifo p", want: session.Completed, why: "named pipe"},
		"loop":        {does: "ln -s loop loop", want: session.Completed},
		"gone":        {does: `d=$(pwd); cd /; rm -rf "$d"`, want: session.Failed, why: "working directory was removed or replaced"},
		"long":        {does: `n=$(printf %0250d 0); for i in 1 2 3 4 5 6; do mkdir $n; cd $n; done; echo x > f`, want: session.Completed, why: "left out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, sessionID := newWorld(t), "spoilt-"+strings.ReplaceAll(name, " ", "-")
			if name == "gone" && isolation == agent.IsolationRequired { // a room's workspace cannot be removed, only emptied
				c.want, c.why = session.Completed, ""
			} else if name == "gone" {
				w.without = proctest.Landlock // which keeps the directory
			}
			w.write("agents.yaml", `{version: 1, isolation: `+isolation+`, agents: {bad: {kind: command, argv: [/bin/sh, -c, 'echo x > a.txt; `+c.does+`; true']}}}`)
			teamFile := w.write("team.yaml", `{version: 1, name: bad, help: {mode: fail}, retry: {attempts: 2, rounds: 1, initial: 10ms}, personas: {dev: {role: r, agent: bad, instructions: do}},
				phases: [{name: one, personas: [dev]}, {name: two, personas: [dev]}]}`)
			w.asNobody()
			w.startWorker()
			w.must("run", teamFile, "spoil it", "--session", sessionID)
			s := w.ends(sessionID)
			require.Equal(t, c.want, s.Status, "%+v", s)
			if c.want == session.Completed && c.why != "" {
				require.Contains(t, s.Phases[0].Assignments[0].Summary, c.why)
			}
			if c.want == session.Failed {
				failed := s.Phases[0].Assignments[0].Failures
				require.Len(t, failed, 2, "%+v", s)
				require.Equal(t, failures.InvalidOutput, failed[0].Category)
				require.Contains(t, failed[0].Message, c.why)
			}
		})
	}
}
