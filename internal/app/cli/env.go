package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// Env is the process environment of a command line.
type Env struct {
	// Args are the arguments without the program's name.
	Args []string
	// Stdin, Stdout and Stderr are the process's streams.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// IsTerminal reports whether a stream is a terminal; see [IsTerminal].
	IsTerminal func(stream any) bool
	// Width is how many characters a line of a stream has; zero: unknown. Nil:
	// so of all streams. See [Width].
	Width func(stream any) int
	// Environ lists the environment as NAME=VALUE; of a name that occurs
	// twice, the last counts.
	Environ []string
	// Executable is the path of the running program; it may be empty.
	Executable string
	// Dir is the working directory.
	Dir string
	// Host is the machine's name, and PID the process's number.
	Host string
	PID  int
	// Harden protects the process from the agents that it is about to run; see
	// [Harden]. Nil, in tests, protects nothing.
	Harden func() error
	// Now returns the time.
	Now func() time.Time
}

// Shim makes this process the supervisor of an agent's processes if it was started
// as such; see [room.Shim]. A main calls it before anything else.
func Shim() { room.Shim() }

// Harden protects this process from the agents that it runs; see [procgroup.Harden].
func Harden() error { return procgroup.Harden() }

// IsTerminal reports whether a stream is a file that is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width is how many characters a line of a terminal has; zero for any other stream.
func Width(stream any) int {
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// environ is an environment for what reads one.
type environ []string

// LookupEnv returns a variable's value and whether it is set.
func (e environ) LookupEnv(name string) (value string, ok bool) {
	for _, entry := range e {
		if n, v, _ := strings.Cut(entry, "="); n == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// Environ lists the environment.
func (e environ) Environ() []string { return e }

// get is a variable's value; empty if it is not set.
func (e environ) get(name string) string {
	value, _ := e.LookupEnv(name)
	return value
}

// person is the user, as user@host. A user without a name has its number.
func (e Env) person() string {
	name := cmp.Or(environ(e.Environ).get("USER"), strconv.Itoa(os.Getuid()))
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	return fmt.Sprintf("%s@%s", name, e.Host)
}

// acting is a context in which the user acts.
func (e Env) acting(ctx context.Context) context.Context {
	return access.With(ctx, access.Local(e.person()))
}

// harden protects a process that is about to run agents from them.
func (e Env) harden() error {
	if e.Harden == nil {
		return nil
	}
	return e.Harden()
}
