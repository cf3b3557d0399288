package proctest

import (
	"flag"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// networkVariable is set in the process that has a network of its own.
const networkVariable = "MAESTRO_TEST_NETWORK"

// InNetwork reports whether this process has a network of its own, in which it may make others with `ip netns`. If not, it runs
// the top-level test again in a process that has, with more variables and with those flags of this process whose names begin
// with a text, and reports its result; the caller must return then. The networks are gone when that process and its children
// have ended.
// Without root, the test is skipped: some of its programs are another user's.
func InNetwork(t *testing.T, flags string, variables ...string) bool {
	t.Helper()
	if os.Getenv(networkVariable) != "" { //nolint:forbidigo // set by the parent process
		if err := prepareNetwork(); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("only root makes networks that programs of several users share")
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.count=1", "-test.timeout=15m"}
	flag.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, flags) {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)               //nolint:gosec // the test itself
	cmd.Env = append(append(os.Environ(), networkVariable+"=1"), variables...) //nolint:forbidigo // the same environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the process ends with the thread that starts it
	defer runtime.UnlockOSThread()
	out := &Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Skip("the kernel does not permit a network of its own to this process: ", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("in a network of its own: %v\n%s", err, out)
		return false
	}
	t.Logf("in a network of its own:\n%s", out)
	return false
}

// prepareNetwork starts the loopback interface, and makes the names of networks those of this process.
func prepareNetwork() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("none", "/run/netns", "tmpfs", 0, ""); err != nil {
		return err
	}
	return exec.Command("ip", "link", "set", "lo", "up").Run()
}
