package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/procgroup"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/workdir"
)

// shellRoom has the directories of a shell: copies of those of an assignment's agent.
type shellRoom struct {
	*console
	env     Env
	store   *store.Store
	key     session.Key
	id      spec.AssignmentID
	team    spec.Team
	agent   string
	set     *agent.Set
	dirs    *workdir.Dirs
	scratch *workdir.Scratch
	// base is the tree of the layers, and before the tree at the start.
	base, before spec.Digest
	// changed: the shell has changed files. keep: the files are not removed.
	changed, keep bool
}

// fill copies the files: those of this host, otherwise the recorded tree. whole is the tree that
// they are compared with if no other is known.
func (r *shellRoom) fill(ctx context.Context, tree, whole spec.Digest) (err error) {
	if r.scratch, err = r.dirs.NewScratch(); err != nil {
		return err
	}
	switch i := r.set.Isolation(); {
	case i.WithoutRooms != "":
		r.printErr("the shell runs without a room, in separate directories: %s", i.WithoutRooms)
	case !i.Rooms:
		r.printErr("the shell runs without a room, in separate directories: the worker file has isolation: none")
	}
	var unread int
	r.base, unread, err = r.scratch.Copy(ctx, r.key, r.id, tree)
	switch {
	case errors.Is(err, fs.ErrNotExist) && tree == "":
		return usagef("this host has no files of %s, and the store has none of a finished attempt", r.id)
	case errors.Is(err, fs.ErrNotExist):
		r.printErr("files of %s as the store has them; ignored files are not among them", r.id)
		r.base, err = tree, r.lay(ctx, tree)
	case err == nil:
		r.printErr("files of %s as they are on this host, copied", r.id)
	}
	if err != nil {
		return err
	}
	if unread > 0 {
		r.printErr("%d files or directories cannot be read, and are left out", unread)
	}
	for _, from := range []spec.Digest{tree, whole} {
		if r.base == "" {
			r.base = from
		}
	}
	var refused *failures.Failure
	if r.before, err = r.collect(ctx); errors.As(err, &refused) {
		r.printErr("the files cannot be kept as they are: %s; changes are listed as against the tree before", refused.Message)
		r.before, err = r.base, nil
	}
	return err
}

func (r *shellRoom) lay(ctx context.Context, tree spec.Digest) error {
	if r.dirs.HasLayers() {
		return r.scratch.UseLayers(ctx, tree)
	}
	return r.store.Content.Materialise(ctx, tree, r.scratch.Tree)
}

// collect stores the files and returns their tree.
func (r *shellRoom) collect(ctx context.Context) (spec.Digest, error) {
	collected, err := r.store.Content.Collect(ctx, session.Collect{
		Base: r.base, Dir: r.scratch.Tree, Lower: r.scratch.Lower(), Ignore: r.team.Ignore, Produces: r.team.Outputs(r.id), Secrets: r.set.Secrets(),
	})
	return collected.Output, err
}

// close removes all directories that are not kept.
func (r *shellRoom) close() error {
	if r.scratch == nil {
		return nil
	}
	r.scratch.ReleaseLayers()
	if r.keep {
		return nil
	}
	return r.scratch.Remove()
}

// start runs a command, or a shell at the terminal, and returns its exit code.
func (r *shellRoom) start(ctx context.Context, argv []string, keys bool) (int, error) {
	streams, done, err := r.streams()
	if err != nil {
		return 0, err
	}
	job := agent.ShellJob{WorkDir: r.scratch.WorkDir, Agent: r.agent, Team: session.CacheDomain(r.key, r.team.Name), Argv: argv, Keys: keys, Streams: streams, Lock: r.scratch}
	if streams.Terminal {
		job.Env = []string{"TERM=" + environ(r.env.Environ).get("TERM")}
	}
	defer done()
	return r.set.Shell(ctx, job)
}

// streams are those of a shell: a terminal of its own if this process is at one, otherwise
// pipes. done ends them.
func (r *shellRoom) streams() (_ *procgroup.Streams, done func(), err error) {
	in, ok := r.env.Stdin.(*os.File)
	if !ok || !r.env.IsTerminal(in) || !r.env.IsTerminal(r.env.Stdout) {
		return r.pipes()
	}
	ours, theirs, err := pty.Open()
	if err != nil {
		return nil, nil, failf("make a terminal: %w", err)
	}
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, nil, errors.Join(err, ours.Close(), theirs.Close())
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	resized <- syscall.SIGWINCH
	go func() {
		for range resized {
			_ = pty.InheritSize(in, ours) // a terminal without a size
		}
	}()
	go func() { _, _ = io.Copy(ours, in) }()
	var shown sync.WaitGroup
	shown.Go(func() { _, _ = io.Copy(r.env.Stdout, ours) }) // ends with the last process at the terminal
	return &procgroup.Streams{In: theirs, Out: theirs, Err: theirs, Terminal: true}, func() {
		_ = theirs.Close() // it is, unless nothing was started
		shown.Wait()
		signal.Stop(resized)
		close(resized)
		_ = term.Restore(int(in.Fd()), was)
		_ = ours.Close()
	}, nil
}

// pipes connects the streams of this process.
func (r *shellRoom) pipes() (_ *procgroup.Streams, done func(), err error) {
	var ends []*os.File
	closeEnds := func() {
		for _, f := range ends {
			_ = f.Close() // a pipe's end
		}
	}
	for range 3 {
		from, to, err := os.Pipe()
		if err != nil {
			closeEnds()
			return nil, nil, failf("make a pipe: %w", err)
		}
		ends = append(ends, from, to)
	}
	go func() {
		_, _ = io.Copy(ends[1], r.env.Stdin) // it need not be read
		_ = ends[1].Close()
	}()
	var shown sync.WaitGroup
	shown.Go(func() { _, _ = io.Copy(r.env.Stdout, ends[2]) })
	shown.Go(func() { _, _ = io.Copy(r.env.Stderr, ends[4]) })
	return &procgroup.Streams{In: ends[0], Out: ends[3], Err: ends[5]}, func() {
		for _, theirs := range []int{0, 3, 5} {
			_ = ends[theirs].Close() // it is, unless nothing was started
		}
		shown.Wait()
		closeEnds()
	}, nil
}
