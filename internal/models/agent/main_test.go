package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// workerArgument makes the test binary a hardened worker that runs one shell
// script as an agent. It is there to be killed.
const workerArgument = "__test-worker"

// keysArgument makes the test binary ask for the keys of its session and user.
const keysArgument = "__test-keys"

// dialArgument makes the test binary connect to an address.
const dialArgument = "__test-dial"

func TestMain(m *testing.M) {
	room.Shim()
	proctest.RunWithout()
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	args := os.Args[2:]
	program, ok := map[string]func() error{
		keysArgument:   keys,
		dialArgument:   func() error { return dial(args[0]) },
		askArgument:    func() error { return ask(args) },
		hogArgument:    func() error { return hog(args[0]) },
		workerArgument: func() error { return work(args[0], args[1], args[2]) },
	}[os.Args[1]]
	if !ok {
		os.Exit(m.Run())
	}
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// keys asks for keys of the kernel, and for a copy of the mounts.
func keys() error {
	_, session := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
	_, user := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
	_, copied := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
	_, err := fmt.Println("keys:", session, "/", user, "\ncopies of mounts:", copied)
	return err
}

// dial connects to an address.
func dial(address string) error {
	network := "tcp"
	if address == "vsock" {
		_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		return err
	}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	return c.Close()
}

// testLock is a lock as the store hands them out.
type testLock struct{ *os.File }

func (l testLock) Unlock() { _ = l.Close() }

func (l testLock) Lease() *session.Lease { return nil }

// tryLock takes the lock on a file, or fails while another holds it.
func tryLock(path string) (session.Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return testLock{f}, nil
}

// work runs the script in the bench's directory and prints how it failed.
func work(dir, script, isolation string) error {
	if err := procgroup.Harden(); err != nil {
		return err
	}
	s, err := New(Config{Isolation: isolation, Version: 1, Agents: map[string]Definition{
		"x": {Kind: KindCommand, Argv: []string{"/bin/sh", "-c", script}},
	}}, Options{Getenv: os.Getenv, Now: time.Now})
	if err != nil {
		return err
	}
	lock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	_, err = s.Run(context.Background(), session.Job{
		Agent: "x", WorkDir: session.WorkDir{
			Tree: filepath.Join(dir, "tree"), Home: filepath.Join(dir, "home"),
			Tmp: filepath.Join(dir, "tmp"),
		},
		Lock: lock, Calls: callstest.New(-1),
	})
	var f *failures.Failure
	errors.As(err, &f)
	return json.NewEncoder(os.Stdout).Encode(f)
}
