package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/buildinfo"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/room"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Options select what is checked, and how.
type Options struct {
	// StateDir is the given state directory; empty: the environment
	// or the default is used.
	StateDir string
	// Agents is a worker file; empty: none is given.
	Agents string
	// Server is the path of the Temporal server's program; empty: there is none beside
	// this program.
	Server string
	// Dial connects to Temporal.
	Dial func(ctx context.Context) (*temporalutil.Connection, error)
	// Again returns a subcommand of this program as a complete command line, for a person to run;
	// Explain returns the text of an error for a person.
	Again   func(command string) string
	Explain func(err error) string
	// Environ lists the environment, for programs that are run, and Getenv reads it.
	Environ []string
	Getenv  func(name string) string
	// Now returns the current time.
	Now func() time.Time
	// Container: this process is in a container, where no remedy is a command of the host.
	Container bool
	// Host is the machine's name, and PID this process's number.
	Host string
	PID  int
}

// Examine checks everything that a session needs, and what the team needs, if it
// has a name. Problems are findings; it fails only when ctx ends.
func Examine(ctx context.Context, o Options, t spec.Team) ([]control.Finding, error) {
	d := &examination{options: o}
	d.all(ctx, t)
	d.contain()
	return d.findings, ctx.Err()
}

// ExamineStore checks what the sessions of an open store need, as a server does; it checks no
// program of this machine. conn is nil if Temporal cannot be reached.
func ExamineStore(ctx context.Context, s *store.Store, conn *temporalutil.Connection, now func() time.Time) ([]control.Finding, error) {
	host, _ := os.Hostname() // a hint
	d := &examination{store: s, conn: conn, options: Options{
		Again: func(command string) string { return "maestro " + command }, Explain: error.Error, Now: now, Container: room.InContainer(), Host: host, PID: os.Getpid(),
	}}
	d.build()
	d.bounded(ctx, "store", func(d *examination, _ context.Context) { d.opened(s.Dir(), "which this server serves") })
	if conn == nil {
		d.add("temporal", Bad, "start it; the server connects by itself", "Temporal cannot be reached").Command = "maestro doctor"
	} else {
		d.temporal(ctx)
	}
	d.used(ctx, spec.Team{})
	d.contain()
	return d.findings, ctx.Err()
}

// lookPatience limits each check, so that a disk or a server that does not answer is a finding and
// the other checks run.
const lookPatience = 6 * time.Second

// examination collects findings.
type examination struct {
	options  Options
	store    *store.Store             // nil: there is none
	conn     *temporalutil.Connection // nil: it cannot be reached
	findings []control.Finding
}

// add adds a finding. The caller may add a command.
func (d *examination) add(check, result, remedy, message string, args ...any) *control.Finding {
	d.findings = append(d.findings, control.Finding{Check: check, Result: result, Message: fmt.Sprintf(message, args...), Remedy: remedy})
	return &d.findings[len(d.findings)-1]
}

// all runs all checks.
func (d *examination) all(ctx context.Context, t spec.Team) {
	d.bounded(ctx, "program", (*examination).program)
	d.bounded(ctx, "store", (*examination).state)
	d.connect(ctx)
	if d.conn != nil {
		defer d.conn.Close()
		d.temporal(ctx)
	}
	d.used(ctx, t)
	d.workerFile(ctx, t)
}

// used checks the workers, and what they and the team use.
func (d *examination) used(ctx context.Context, t spec.Team) {
	d.bounded(ctx, "workers", (*examination).workers)
	d.bounded(ctx, "agents", func(d *examination, ctx context.Context) { d.served(ctx, t) })
	d.bounded(ctx, "breakers", (*examination).breakers)
}

// bounded adds the findings of look or, if it takes too long, one finding about that; later
// findings of look are dropped.
func (d *examination) bounded(ctx context.Context, check string, look func(*examination, context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	apart := &examination{options: d.options, store: d.store, conn: d.conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		look(apart, ctx)
	}()
	select {
	case <-done:
		d.store = apart.store
		d.findings = append(d.findings, apart.findings...)
	case <-ctx.Done():
		d.add(check, Bad, "find out what is not responding: a disk, a mount, a program or a network", "no answer within %s", lookPatience)
	}
}

// program checks this program, and those that it needs.
func (d *examination) program(ctx context.Context) {
	d.build()
	switch {
	case d.options.Server == "" && d.options.Container: // images run no server
	case d.options.Server == "":
		d.add("server program", Warning, "build it to run `maestro dev` or `maestro demo` here", "maestro-server is not in the directory of this program").Command = "make build"
	default:
		d.add("server program", OK, "", "%s", d.options.Server)
	}
	version, err := d.versionOf(ctx, "git")
	if err != nil {
		d.add("git", Warning, "install it if agents have `git: true`, or to apply work as a branch", "%s", err).Command = "sudo apt-get install git"
	} else {
		d.add("git", OK, "", "%s", version)
	}
}

// build adds a finding with the version of this program.
func (d *examination) build() {
	v := buildinfo.This()
	d.add("program", OK, "", "maestro %s, %s, Temporal SDK %s", v.Version, v.Go, terminal.Dash(v.SDK))
}

// versionPatience bounds the wait for a program to say its version.
const versionPatience = 4 * time.Second

// versionOf returns the version of a program: the first line of `--version`.
func (d *examination) versionOf(ctx context.Context, program string) (string, error) {
	path, err := inPath(program, d.options.Getenv("PATH"))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version") // git, or a program that the worker file has agents start
	cmd.Env = d.options.Environ
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s --version did not end within %s", path, versionPatience)
	case err != nil:
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	return safetext.Clip(textfmt.FirstLine(strings.TrimSpace(string(out))), 60), nil
}

// inPath finds a program in a PATH that need not be this process's.
func inPath(program, path string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for dir := range strings.SplitSeq(path, ":") {
		if found, err := exec.LookPath(dir + "/" + program); dir != "" && err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s is not in PATH", program)
}

// startWorker is a command that starts a worker.
func (d *examination) startWorker() string {
	return d.options.Again("worker --agents " + agent.ShellWord(cmp.Or(d.options.Agents, "agents.yaml")))
}

// remedyOf splits an error's text: Maestro's errors have the remedy after their last
// semicolon.
func remedyOf(err error, otherwise string) (what, remedy string) {
	text := err.Error()
	if i := strings.LastIndex(text, "; "); i >= 0 {
		return text[:i], text[i+2:]
	}
	return text, otherwise
}

// unreached is the reason why there is no connection, without the remedy.
func (d *examination) unreached(err error) string {
	var unreachable *temporalutil.UnreachableError
	if errors.As(err, &unreachable) {
		what := "no answer from " + unreachable.Address
		if e := unreachable.Ended; e.Address != "" {
			what += fmt.Sprintf(", and `maestro dev` (process %d), which ran a server for this store at %s, has ended", e.PID, e.Address)
		}
		return what
	}
	return d.options.Explain(err)
}
