package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// permitsRooms reports whether this host permits rooms.
func permitsRooms() bool {
	return (&procgroup.Launcher{Secrets: secrets.New(nil), Threads: procgroup.Threads{Each: 100}}).TryRoom(nil) == nil
}

// overlaid becomes the program in its arguments, with a directory that is an overlay.
const overlaid = `mkdir -p "$1" "$1.upper" "$1.work" && mount -t overlay overlay -o "lowerdir=$1,upperdir=$1.upper,workdir=$1.work" "$1" && shift && exec "$@"`

// TestDoctorNamesWhatTheHostLacks examines this host with one feature of the kernel switched off
// at a time.
func TestDoctorNamesWhatTheHostLacks(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	d := newDesk(t)
	doctor := func(more string, command func(args ...string) *exec.Cmd) findings {
		file := d.file("agents.yaml", "version: 1\nagents:\n  a: {kind: command, argv: [\"true\"]}\n"+more)
		cmd := command(self, "doctor", "-o", "json", "--agents", file)
		cmd.Env = append(d.environ, asProgram+"="+d.bin)
		out, err := cmd.Output()
		var doc struct{ Findings findings }
		require.NoError(t, json.Unmarshal(out, &doc), "%s %v", out, err)
		return doc.Findings
	}
	without := func(f proctest.Feature) func(args ...string) *exec.Cmd {
		return func(args ...string) *exec.Cmd { return proctest.Without(f, args[0], args[1:]...) }
	}

	fs := doctor("", without(proctest.UserNamespaces))
	f := fs.of(t, "processes", "warning")
	require.Contains(t, f.Message, "agents and checks work without rooms: start the shim: ")
	require.Regexp(t, "the service or container forbids it; see docs/deployment.md|user namespaces are|AppArmor restricts",
		f.Message)
	require.Contains(t, f.Remedy, "isolation: none")
	if os.Geteuid() == 0 {
		require.Equal(t, "agents and checks run as root", fs.of(t, "processes user", "warning").Message)
	}
	f = doctor("isolation: required\n", without(proctest.UserNamespaces)).of(t, "processes", "bad")
	require.Contains(t, f.Message, "isolation: required, but this host permits no rooms: ")

	limits := doctor("isolation: none\n", without(proctest.Landlock)).of(t, "limits", "ok").Message
	require.Contains(t, limits, "files all of its user (nothing, because the kernel, or the filter of system calls, permits no "+
		"Landlock 2)")
	require.Contains(t, limits, "signals all of its user (nothing, because the kernel, or the filter of system calls, permits no "+
		"Landlock 6)")
	if room.Landlock() >= room.ScopeVersion {
		limits = fs.of(t, "limits", "ok").Message
		require.Contains(t, limits, "files its own and what it is shown (Landlock ")
		require.Contains(t, limits, "signals its own processes (Landlock ")
	}
	require.Regexp(t, `^of each attempt: memory \d.* \(measured by the shim, because .*; threads \d+ \(counted by the shim.* leaves \d+ for \d+ attempts and the worker\).*; memory that no process has mapped without bound .*; disk 10GB, 1000000 files \(measured by the worker\)`, limits)

	if permitsRooms() {
		limits = doctor("", without(proctest.Landlock)).of(t, "limits", "ok").Message
		require.Contains(t, limits, "abstract sockets those of the host with `network: host` (nothing, because the kernel, or the "+
			"filter of system calls, permits no Landlock 6)")
	}

	many := ""
	for i := range 50 { // no kernel has threads for 50,000 attempts
		many += fmt.Sprintf("  a%d: {kind: command, argv: [\"true\"], concurrency: 1000}\n", i)
	}
	f = doctor(many, func(args ...string) *exec.Cmd { return exec.Command(args[0], args[1:]...) }).of(t, "threads", "warning")
	require.Regexp(t, `^programs may fail, because each attempt may have only \d+ threads: .* leaves \d+ for \d+ attempts`,
		f.Message)

	if !permitsRooms() || os.Geteuid() != 0 {
		return // no overlay can be put where the store is
	}
	fs = doctor("", func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--mount", "sh", "-c", overlaid, "sh", filepath.Clean(d.state)}, args...)...)
	})
	fs.of(t, "processes", "ok")
	f = fs.of(t, "layers", "warning")
	require.Contains(t, f.Message, "trees are copied for each attempt, because they cannot be layered: an overlay in "+d.state)
	require.Contains(t, f.Message, "because the directory lies on an overlay")
	require.Equal(t, "keep the store on a volume, like a directory of the host", f.Remedy)
}
