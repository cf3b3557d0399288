package room

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ProgramName is the file name of the program that only contains the shim. It starts in a tenth
// of the time of the worker's program.
const ProgramName = "maestro-shim"

// buildArgument makes the program print its build.
const buildArgument = "--build"

// programLimit is the time within which the program must print its build.
const programLimit = 5 * time.Second

// Program returns the path of the shim's program beside that of this process. The error says why
// it cannot be used; the caller then uses its own program as the shim.
func Program() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(own), ProgramName)
	if err := tryProgram(path); err != nil {
		return "", err
	}
	return path, nil
}

// tryProgram returns an error unless a program is the shim of this build.
func tryProgram(path string) error {
	if err := executable(path); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), programLimit)
	defer cancel()
	printed, err := exec.CommandContext(ctx, path, buildArgument).Output()
	if err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	if build := strings.TrimSpace(string(printed)); build != Build() {
		return fmt.Errorf("%s is of build %q, this program of %q", path, build, Build())
	}
	return nil
}

// The timer slack of threads, in nanoseconds: how much later than requested the kernel may wake
// them.
const (
	lateSlack = 100_000_000
	// usualSlack is the kernel's default.
	usualSlack = 50_000
)

// Start starts a shim. A thread of the Go runtime checks every 20 µs whether goroutines have to
// be preempted. A shim does not need that, and it would take a tenth of all processor time. So
// the shim starts with a large timer slack, which the runtime's threads inherit, and then resets
// that of its own thread.
func Start(shim *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setSlack(lateSlack)
	defer setSlack(usualSlack)
	return shim.Start()
}

// setSlack sets the timer slack of the calling thread and of the threads and processes that it
// starts.
func setSlack(ns uintptr) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, ns, 0, 0, 0) // a filter of system calls may forbid it
}

// Build identifies the source that this program was built from. It is part of the orders of each
// start.
var Build = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	build := info.GoVersion
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs.") {
			build += " " + s.Value
		}
	}
	return build
})
