package proctest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mountsVariable is set in the process in which a test may mount.
const mountsVariable = "MAESTRO_TEST_MOUNTS"

// InMounts reports whether this process has user and mount namespaces of its own, in which
// it may mount overlays. If not, it runs the top-level test again in a process that has,
// with the same user, and reports its result; the caller must return then. Where the kernel
// does not permit that, the test is skipped.
func InMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(mountsVariable) != "" { //nolint:forbidigo // set by the parent process
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		dirs := [4]string{t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()}
		unmount, err := Overlay(dirs[0], []string{dirs[1]}, dirs[2], dirs[3])
		if err != nil {
			t.Skip("no overlay can be mounted here: ", err)
		}
		if err := unmount(); err != nil {
			t.Fatal(err)
		}
		return true
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.count=1", "-test.timeout=2m"}
	for _, a := range os.Args[1:] {
		if strings.HasPrefix(a, "-rapid.") {
			args = append(args, a)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // the test itself
	cmd.Env = append(os.Environ(), mountsVariable+"=1")          //nolint:forbidigo // the same environment
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		t.Skip("the kernel does not permit namespaces of its own to this process: ", err)
	case err != nil:
		t.Errorf("in its own namespaces: %v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skip("in its own namespaces: " + string(out))
	default:
		t.Logf("in its own namespaces:\n%s", out)
	}
	return false
}

// Overlay mounts an overlay as rooms do, with the lower directories topmost first.
func Overlay(at string, lower []string, upper, work string) (unmount func() error, err error) {
	options := "userxattr,lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
		return nil, err
	}
	return func() error { return unix.Unmount(at, 0) }, nil
}
