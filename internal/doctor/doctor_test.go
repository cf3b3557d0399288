package doctor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func examined() *examination {
	return &examination{options: Options{Again: func(command string) string { return "maestro " + command }}}
}

func TestRoomInBytesAndFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes, files  int64
		counted       bool
		result, wants string
	}{
		{50 << 30, 1_000_000, true, OK, "50.0 GiB free, and room for 1,000,000 files"},
		{50 << 30, 0, false, OK, "50.0 GiB free"}, // some file systems count no files
		{100 << 20, 1_000_000, true, Warning, "only 100.0 MiB free"},
		{50 << 30, 900, true, Warning, "room for only 900 files (inodes)"},
	} {
		d := examined()
		d.room(c.bytes, c.files, c.counted)
		require.Equal(t, c.result, d.findings[0].Result)
		require.Contains(t, d.findings[0].Message, c.wants)
		require.Equal(t, c.result != OK, d.findings[0].Command == "maestro checkpoints prune --dry-run")
	}
}

func TestRemediesForAStoreThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&os.PathError{Op: "open", Path: "x", Err: unix.EROFS}, "sudo mount -o remount,rw /"},
		{fmt.Errorf("write: %w", unix.ENOSPC), "maestro checkpoints prune --dry-run"},
		{&os.PathError{Op: "open", Path: "x", Err: unix.EACCES}, "chmod -R u+rwX /proc"},
		{errors.New("something else"), ""},
	} {
		d := examined()
		d.unwritable("/proc", c.err)
		require.Equal(t, Bad, d.findings[0].Result)
		require.NotEmpty(t, d.findings[0].Remedy)
		require.True(t, strings.HasPrefix(d.findings[0].Command, c.want), d.findings[0].Command)
	}
}

func TestVersionsThatAreOlder(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"1.28.3": true, "1.9": true, "0.30.0": true, "1.29.0": false, "1.32.1": false, "2.0": false, "": false, "edge": false,
	} {
		require.Equal(t, want, older(version, "1.29"), version)
	}
}

func TestRemediesInErrors(t *testing.T) {
	t.Parallel()
	what, remedy := remedyOf(errors.New("it is shut; see why; open it"), "wait")
	require.Equal(t, "it is shut; see why", what)
	require.Equal(t, "open it", remedy)
	_, remedy = remedyOf(errors.New("it is shut"), "wait")
	require.Equal(t, "wait", remedy)
}

// TestRemediesInAContainer: no command of the host is advised there, and those that work stay.
func TestRemediesInAContainer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ check, command, remedy, left string }{
		{"store writable", "sudo mount -o remount,rw /", "mount the store's volume writable, for the user of the container", ""},
		{"store writable", "maestro checkpoints prune", "do it", "maestro checkpoints prune"},
		{"workers", "maestro worker --agents a.yaml", "start a container of a worker with the same volume; if one runs, its log and `maestro-worker health` in it say what is missing", ""},
		{"agent a in file", "sudo apt-get install git", "do it, in the image", ""},
		{"server clock", "sudo timedatectl set-ntp true", "do it, on the host of the container", ""},
		{"store private", "chmod 700 /x", "do it", "chmod 700 /x"},
	} {
		d := examined()
		d.add(c.check, Warning, "do it", "it is so").Command = c.command
		d.contain()
		require.Equal(t, c.command, d.findings[0].Command, "outside of a container")
		d.options.Container = true
		d.contain()
		require.Equal(t, c.remedy, d.findings[0].Remedy)
		require.Equal(t, c.left, d.findings[0].Command)
	}
}
