package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/secrets"
	"github.com/maestro-hive/maestro/internal/session"
)

const (
	// shimSlack is how much longer than its own limits a shim may take to
	// report before it is given up and killed.
	shimSlack = 5 * time.Second
	// drainLimit is how long output may still come once every process is gone:
	// what was printed is already in the pipes.
	drainLimit = 2 * time.Second
)

// launcher starts processes below shims.
type launcher struct {
	executable string
	sandbox    []string
	user       *account
	grace      time.Duration
	// patience is how long a shim has to report once the grace is over.
	patience   time.Duration
	maxOutput  int64
	maxFile    uint64
	maxThreads int
	secrets    *secrets.Set
}

// process is what a launcher runs.
type process struct {
	argv  []string
	dir   string
	env   []string
	stdin []byte
	// timeout bounds the whole run, idle the time without output; zero: not.
	timeout, idle time.Duration
	// lock, if not nil, is one that lasts until all of it is gone, even when
	// the worker is killed.
	lock session.Lock
	// progress gets the lines of stderr, and of stdout if both is set.
	progress *progress
	both     bool
	// said is the file that takes the transcript as it grows; empty: none does.
	// begun is when an earlier execution of the attempt was begun, whose transcript it
	// has already; zero: it is the first.
	said  string
	begun time.Time
	// events, if not nil, makes what reads stdout: it is a stream of events, and
	// out takes what of them belongs into the log.
	events func(out *stream) *eventLines
	// halt ends the process for the failure that it gets; nil: nothing does.
	halt <-chan *failures.Failure
}

// ending is how a process ended.
type ending struct {
	report
	*capture
	// stopped says which limit the process was ended for; nil: for none.
	stopped *failures.Failure
	// cancelled is the cause of the context's end; nil: it did not end.
	cancelled error
	// broken says why nothing is known of the process's end. ran: it had been started, so
	// that what it did may be the reason.
	broken error
	ran    bool
}

// own tells whether it is the process's own doing how it ended: it was started,
// was not stopped, and all that is known of it is certain.
func (e ending) own() bool {
	return e.stopped == nil && e.cancelled == nil && e.broken == nil && e.StartError == "" && e.Swarm == 0
}

// hasExited tells whether the process has ended by exiting, so that it has said what
// it had to say. One that was told to stop has only if it succeeded.
func (e ending) hasExited() bool {
	if e.broken != nil || e.StartError != "" || e.Swarm != 0 || e.Signal != 0 {
		return false
	}
	return e.stopped == nil && e.cancelled == nil || e.Exit == 0
}

// run runs the process and returns when it and all that it started are gone.
func (l *launcher) run(ctx context.Context, p process) ending {
	c := newCapture(l.secrets, l.maxOutput)
	defer c.sayInto(p.said, p.begun)()
	if p.progress != nil {
		c.err.told = p.progress.line
		if p.both {
			c.out.told = p.progress.line
		}
		defer p.progress.end()
	}
	if p.events != nil {
		c.out.events = p.events(c.out)
	}
	if ctx.Err() != nil {
		return ending{capture: c, cancelled: context.Cause(ctx)}
	}
	s, err := l.start(p)
	if err != nil {
		return ending{capture: c, broken: err}
	}
	e := ending{capture: c, ran: true}
	pipes := s.pump(c, p.stdin, l.orders(p))
	e.stopped, e.cancelled = s.watch(ctx, p, c)
	e.report, e.broken = s.finish(pipes)
	if n := e.Strays; n > 0 {
		c.note("%d processes were still running at its end and were killed", n)
	}
	if e.Survivors > 0 {
		e.broken = fmt.Errorf("%d of its processes could not be killed: they do not respond, or belong to another user", e.Survivors)
	}
	return e
}

func (l *launcher) orders(p process) orders {
	return orders{
		Argv: append(append([]string{}, l.sandbox...), p.argv...), Dir: p.dir, Env: p.env,
		Grace: l.grace, User: l.user, MaxFile: l.maxFile, MaxThreads: l.maxThreads,
		Privileges: len(l.sandbox) > 0, // many sandboxes are setuid programs
	}
}

// running is a shim that has been started.
type running struct {
	cmd     *exec.Cmd
	started uint64 // in clock ticks since boot
	// patience is how long it may take to report once it is told to stop.
	patience time.Duration

	stdin, orders       *os.File // written
	stdout, stderr, end *os.File // read

	stop     chan struct{} // closed to have the process stopped
	reported chan struct{} // closed when report and reportErr are set
	report   report
	reportOf error
}

// start starts a shim, which waits for its orders.
func (l *launcher) start(p process) (_ *running, err error) {
	s := &running{patience: l.grace + l.patience, stop: make(chan struct{}), reported: make(chan struct{})}
	var theirs []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll([]*os.File{s.stdin, s.orders, s.stdout, s.stderr, s.end})
		}
	}()
	for _, pipe := range []struct {
		ours    **os.File
		written bool
	}{{&s.stdin, true}, {&s.stdout, false}, {&s.stderr, false}, {&s.orders, true}, {&s.end, false}} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		if pipe.written {
			*pipe.ours, theirs = w, append(theirs, r)
		} else {
			*pipe.ours, theirs = r, append(theirs, w)
		}
	}
	if p.lock != nil {
		lock, err := share(p.lock)
		if err != nil {
			return nil, err
		}
		theirs = append(theirs, lock)
	}
	s.cmd = &exec.Cmd{
		Path: l.executable,
		Args: []string{filepath.Base(os.Args[0]), shimArgument, strconv.Itoa(os.Getpid())},
		// Nothing of the worker's environment: others could read it there.
		Env:   []string{},
		Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2], ExtraFiles: theirs[3:],
		// A group of its own keeps the terminal's interrupts away. It has to
		// stay in the worker's session: see endOrphans.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the shim: %w", err)
	}
	self, _ := readProc(s.cmd.Process.Pid)
	s.started = self.started
	return s, nil
}

// share makes a descriptor of the lock for another process.
func share(lock session.Lock) (*os.File, error) {
	fd, err := unix.FcntlInt(lock.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("share the assignment's lock: %w", err)
	}
	return os.NewFile(uintptr(fd), "lock"), nil // not negative
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // a pipe's end
		}
	}
}

// pump moves everything through the pipes. The returned group is done when
// nothing more comes.
func (s *running) pump(c *capture, stdin []byte, o orders) *sync.WaitGroup {
	var pipes sync.WaitGroup
	read := func(from *os.File, to io.WriteCloser) {
		pipes.Go(func() {
			_, _ = io.Copy(to, from) // ends with the pipe, however that ends
			_ = to.Close()
		})
	}
	read(s.stdout, c.out)
	read(s.stderr, c.err)
	pipes.Go(func() {
		// An agent need not read its standard input.
		_, _ = s.stdin.Write(stdin)
		_ = s.stdin.Close()
	})
	pipes.Go(func() {
		// A shim that does not read its orders is dead, which the report tells.
		if writeOrders(s.orders, o) != nil {
			return
		}
		select {
		case <-s.stop:
			_, _ = s.orders.Write([]byte{1})
		case <-s.reported:
		}
	})
	pipes.Go(func() {
		defer close(s.reported)
		if err := json.NewDecoder(s.end).Decode(&s.report); err != nil {
			s.reportOf = errors.New("its supervising process was killed")
		}
	})
	return &pipes
}

// watch returns when the shim has reported. If the process had to be stopped
// before that, it says for which limit, or for which cause of the context's end.
func (s *running) watch(ctx context.Context, p process, c *capture) (stopped *failures.Failure, cancelled error) {
	timeout, idle := newTimer(p.timeout), newTimer(p.idle)
	defer timeout.Stop()
	defer idle.Stop()
	for stopped == nil && cancelled == nil {
		select {
		case <-s.reported:
			return nil, nil
		case <-c.active:
			if p.idle > 0 {
				idle.Reset(p.idle)
			}
		case <-ctx.Done():
			cancelled = context.Cause(ctx)
		case stopped = <-p.halt:
		case <-timeout.C:
			stopped = failures.Failf(failures.Timeout, "exceeded its timeout of %s", p.timeout)
		case <-idle.C:
			stopped = failures.Failf(failures.Timeout, "printed nothing for %s (idle_timeout)", p.idle)
		case <-c.full:
			stopped = failures.Failf(failures.InvalidOutput, "printed more than %s (limits.output_bytes)", ByteSize(c.limit))
		}
	}
	close(s.stop)
	patience := time.NewTimer(s.patience)
	defer patience.Stop()
	select {
	case <-s.reported:
	case <-patience.C:
		_ = s.cmd.Process.Kill() // what it leaves is found below
		<-s.reported
	}
	return stopped, cancelled
}

// newTimer makes a timer that never fires if d is zero.
func newTimer(d time.Duration) *time.Timer {
	t := time.NewTimer(max(d, 1))
	if d <= 0 {
		t.Stop()
	}
	return t
}

// finish waits for the shim's own end, and kills what it has left if it was
// killed itself.
func (s *running) finish(pipes *sync.WaitGroup) (report, error) {
	waited := s.cmd.Wait()
	broken := s.reportOf
	if broken != nil {
		if waited != nil {
			broken = fmt.Errorf("%w (%w)", broken, waited)
		}
		if n := endOrphans(s.started); n > 0 {
			broken = fmt.Errorf("%w; %d remaining processes could not be killed", broken, n)
		}
	}
	_ = s.orders.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		pipes.Wait()
	}()
	limit := time.NewTimer(drainLimit)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C: // someone else got hold of a pipe
	}
	closeAll([]*os.File{s.stdin, s.stdout, s.stderr, s.end})
	<-drained
	return s.report, broken
}
