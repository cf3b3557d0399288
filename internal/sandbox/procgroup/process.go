package procgroup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

const (
	// defaultGrace is how long a process may take to exit after SIGTERM, by default.
	defaultGrace = 2 * time.Second
	// shimSlack is the time after a shim's own limits. A shim that has not reported then is killed.
	shimSlack = 5 * time.Second
	// drainLimit is the time for reading the rest of the output after all processes ended.
	drainLimit = 2 * time.Second
	// maxProgress is the length of a progress line, in bytes.
	maxProgress = 200
)

// Launcher starts processes below shims.
type Launcher struct {
	// Executable is a program whose main calls [room.Shim] first; empty: this process's own.
	Executable string
	// User, if not nil, is the user of the processes.
	User *room.Account
	// Grace is the time between SIGTERM and SIGKILL; zero: 2 s.
	Grace time.Duration
	// ReportTimeout is how long a shim has to report once the grace is over; zero: 15 s.
	ReportTimeout time.Duration
	// MaxOutput bounds what a process prints, and MaxFile each file that it writes, in
	// bytes. Threads bounds the threads of all its processes.
	MaxOutput int64
	MaxFile   uint64
	Threads   Threads
	// MaxMemory bounds the memory of all its processes, in bytes; zero: no bound. Cgroups,
	// if not nil, enforce it; otherwise the shim measures.
	MaxMemory int64
	Cgroups   *Cgroups
	// Secrets are masked in everything that is captured.
	Secrets *secrets.Set

	// shims has the assignment's directory of each room, by the process id of its shim.
	shims sync.Map
}

// Process is a process to run.
type Process struct {
	Argv  []string
	Dir   string
	Env   []string
	Stdin []byte
	// Timeout bounds the whole run, IdleTimeout the time without output; zero: no bound.
	Timeout, IdleTimeout time.Duration
	// Waits has times that do not count towards these bounds; nil: there are none.
	Waits *session.PausedTime
	// Lock, if not nil, is held until all of the process's descendants are gone, even when
	// the worker is killed.
	Lock session.Lock
	// Progress gets the lines of stderr and, if ProgressFromStdout is set, of stdout, shortened; nil: nothing does.
	Progress           func(line string)
	ProgressFromStdout bool
	// LogFile is the live log file; empty: none. Begun is the start of the attempt's earlier
	// execution, whose log the file already has; zero: there was none.
	LogFile string
	Begun   time.Time
	// Secrets, if not nil, are masked instead of the launcher's.
	Secrets *secrets.Set
	// Captured, if not nil, gets the capture before the process starts.
	Captured func(c *Capture)
	// Events, if not nil, returns the reader of stdout, which is a stream of events; out gets texts for
	// the log.
	Events func(out *Stream) *Lines
	// Halt stops the process when a failure is sent to it; may be nil.
	Halt <-chan *failures.Failure
	// Room, if not nil, is the file system that the process sees; Dir and Env have paths in it.
	Room *room.Layout
	// Floor, if not nil, bounds a process without a room.
	Floor *room.Floor
	// Services are servers of the worker in a Room with a network of its own, at most
	// [room.MaxPorts].
	Services []Service
}

// Result is how a process ended.
type Result struct {
	room.Report
	*Capture
	// Stopped is the limit that the process was stopped for; nil: none.
	Stopped *failures.Failure
	// Cancelled is the cause of the context's end; nil: the context has not ended.
	Cancelled error
	// Err is the reason why the process's result is unknown. Started: the process had started,
	// and may be the cause of Err.
	Err     error
	Started bool
}

// EndedItself reports whether the process started, was not stopped, and its result is known.
func (e Result) EndedItself() bool {
	return e.Stopped == nil && e.Cancelled == nil && e.Err == nil && e.StartError == "" && !e.exceeded()
}

// Exited reports whether the process exited with a result that counts. That of a stopped process
// counts only if it succeeded.
func (e Result) Exited() bool {
	if e.Err != nil || e.StartError != "" || e.exceeded() || e.Signal != 0 {
		return false
	}
	return e.Stopped == nil && e.Cancelled == nil || e.Exit == 0
}

func (e Result) exceeded() bool {
	return e.ThreadsExceeded != 0 || e.MemoryExceeded != 0 || e.Immeasurable
}

// Say reports a line of progress, shortened. An empty one says nothing.
func Say(progress func(line string), line string) {
	if line != "" {
		progress(textfmt.Shorten(line, maxProgress))
	}
}

// Run runs the process and returns when it and all its descendants have ended.
func (l *Launcher) Run(ctx context.Context, p Process) Result {
	c := NewCapture(cmp.Or(p.Secrets, l.Secrets), l.MaxOutput)
	defer c.CopyTo(p.LogFile, p.Begun)()
	if p.Progress != nil {
		c.Stderr.onLine = func(line string) { Say(p.Progress, line) }
		if p.ProgressFromStdout {
			c.Stdout.onLine = c.Stderr.onLine
		}
	}
	if p.Captured != nil {
		p.Captured(c)
	}
	if p.Events != nil {
		c.Stdout.events = p.Events(c.Stdout)
	}
	if ctx.Err() != nil {
		return Result{Capture: c, Cancelled: context.Cause(ctx)}
	}
	group, err := l.Cgroups.create(l)
	if err != nil {
		return Result{Capture: c, Err: err}
	}
	defer group.remove()
	s, err := l.start(p, group, c)
	if err != nil {
		return Result{Capture: c, Err: err}
	}
	defer l.noteRoom(s.cmd.Process.Pid, p.Room)()
	s.reportConn.services, s.reportConn.log = p.Services, c
	defer s.reportConn.stopServices()
	e := Result{Capture: c, Started: true}
	go s.readReport()
	s.order(l.orders(p))
	e.Stopped, e.Cancelled = s.watch(ctx, p, c)
	e.Report, e.Err = s.finish(c)
	if e.LeaseEnded {
		e.Err = errors.New("another host may do this work: neither the database nor Temporal could be reached for too long")
		e.Started = false
	}
	switch used, hostFull := group.killed(); {
	case used > 0: // the kernel has killed all processes, and the shim
		e.MemoryExceeded, e.Err = used, nil
	case hostFull && (e.Err != nil || e.Signal != 0):
		e.Err, e.Started = errors.New("the host had no memory left, and its kernel ended the processes"), false
	}
	if e.Stopped == nil && e.Cancelled == nil {
		e.Stopped = c.exceeded() // output that was read after its end counts, too
	}
	if e.RoomError != "" {
		e.Err, e.Started = fmt.Errorf("make the room: %s", e.RoomError), false
		if e.RoomForbidden {
			e.Err = forbiddenError{e.Err}
		}
	}
	if n := e.Leftover; n > 0 {
		c.Note("%d processes were still running at its end and were killed", n)
	}
	if e.Unkillable > 0 {
		e.Err = fmt.Errorf("%d of its processes could not be killed: they do not respond, or belong to another user", e.Unkillable)
	}
	return e
}

func (l *Launcher) orders(p Process) room.Orders {
	user := l.User
	if p.Room != nil { // processes in a room have the room's user
		user = nil
	}
	ports := make([]uint16, len(p.Services))
	for i, s := range p.Services {
		ports[i] = s.Port
	}
	o := room.Orders{
		Build: room.Build(), Argv: p.Argv, Dir: p.Dir, Env: p.Env,
		Grace: cmp.Or(l.Grace, defaultGrace), User: user, MaxFile: l.MaxFile, MaxThreads: l.Threads.Each, UserThreads: l.Threads.OfUser,
		Room: p.Room, Floor: p.Floor, Ports: ports,
	}
	if p.Lock != nil && p.Lock.Lease() != nil {
		until, _ := p.Lock.Lease().Until()
		o.Lease = max(time.Until(until), time.Second) //nolint:forbidigo // leases last in real time
	}
	if l.Cgroups == nil {
		o.MaxMemory = l.MaxMemory
	}
	return o
}

// running is a shim that has been started.
type running struct {
	cmd *exec.Cmd
	// started is a time just before its start, in the unit of [proctree.Now].
	started uint64
	// reportTimeout is how long it may take to report once it has to stop.
	reportTimeout time.Duration

	orders *os.File // written
	// reportConn reads the report, and the sockets that come before it.
	reportConn reportConn

	reported  chan struct{} // closed when report and reportErr are set
	report    room.Report
	reportErr error
}

// start starts a shim, which waits for its orders. Its output goes to the capture.
func (l *Launcher) start(p Process, group *cgroup, c *Capture) (_ *running, err error) {
	grace := cmp.Or(l.Grace, defaultGrace)
	s := &running{reportTimeout: grace + cmp.Or(l.ReportTimeout, proctree.KillLimit+shimSlack), reported: make(chan struct{})}
	var theirs []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			s.close()
		}
	}()
	orders, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	s.orders, theirs = ours, []*os.File{orders}
	report, err := s.reportConn.open()
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, report)
	if p.Lock != nil {
		lock, err := duplicateLock(p.Lock)
		if err != nil {
			return nil, err
		}
		theirs = append(theirs, lock)
	}
	s.cmd = &exec.Cmd{
		Path: cmp.Or(l.Executable, self),
		Args: []string{filepath.Base(os.Args[0]), room.ShimArgument, strconv.Itoa(os.Getpid())},
		// Nothing of the worker's environment: other processes could read it there. A shim supervises and measures, and
		// more threads cost memory.
		Env:   []string{"GOMAXPROCS=2"},
		Stdin: bytes.NewReader(p.Stdin), Stdout: c.Stdout, Stderr: c.Stderr, ExtraFiles: theirs,
		// Another process may have the output's pipes open.
		WaitDelay: drainLimit,
		// A separate process group gets no interrupts from the terminal. It must stay in the
		// worker's session: see [proctree.EndOrphans].
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if p.Room != nil {
		s.cmd.SysProcAttr = p.Room.Namespaces()
	}
	group.enter(s.cmd.SysProcAttr)
	s.started = proctree.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, forbidden(p.Room, fmt.Errorf("start the shim: %w", err))
	}
	room.RaiseOOMScore(s.cmd.Process.Pid)
	if p.Room != nil {
		if err := p.Room.MapIDs(s.cmd.Process.Pid); err != nil {
			_, _ = s.cmd.Process.Kill(), s.cmd.Wait() // it has started nothing yet
			return nil, forbidden(p.Room, err)
		}
	}
	return s, nil
}

// duplicateLock makes a descriptor of the lock for another process.
func duplicateLock(lock session.Lock) (*os.File, error) {
	fd, err := unix.FcntlInt(lock.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("share the assignment's lock: %w", err)
	}
	return os.NewFile(uintptr(fd), "lock"), nil // not negative
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // the shim has it, or never started
	}
}

// close closes the connections to the shim.
func (s *running) close() {
	_ = s.orders.Close() // nil if there is none
	s.reportConn.close()
}

// readReport reads the report of the shim.
func (s *running) readReport() {
	defer close(s.reported)
	if err := json.NewDecoder(&s.reportConn).Decode(&s.report); err != nil {
		s.reportErr = errors.New("its supervising process was killed")
		if !errors.Is(err, io.EOF) {
			s.reportErr = err
			_ = s.cmd.Process.Kill() // otherwise the process would run without its services
		}
	}
}

// order sends the shim its orders. A shim that does not read them within reportTimeout is killed,
// and reports nothing.
func (s *running) order(o room.Orders) {
	_ = s.orders.SetWriteDeadline(deadlineIn(s.reportTimeout))
	if err := room.WriteOrders(s.orders, o); errors.Is(err, os.ErrDeadlineExceeded) {
		_ = s.cmd.Process.Kill()
	}
}

// watch waits for the shim's report. If it stopped the process before, it returns the limit or
// the cause of the context's end.
func (s *running) watch(ctx context.Context, p Process, c *Capture) (stopped *failures.Failure, cancelled error) {
	timedOut, idled := make(chan struct{}), make(chan struct{})
	defer after(p.Waits, p.Timeout, timedOut).Stop()
	idle := after(p.Waits, p.IdleTimeout, idled)
	defer idle.Stop()
	ended := make(chan struct{})
	defer close(ended)
	go s.extend(p.Lock, ended)
	for stopped == nil && cancelled == nil {
		select {
		case <-s.reported:
			return nil, nil
		case <-c.active:
			if p.IdleTimeout > 0 {
				idle.Reset(p.IdleTimeout)
			}
		case <-ctx.Done():
			cancelled = context.Cause(ctx)
		case stopped = <-p.Halt:
		case <-timedOut:
			stopped = failures.Failf(failures.Timeout, "exceeded its timeout of %s", p.Timeout)
		case <-idled:
			stopped = failures.Failf(failures.Timeout, "printed nothing for %s (idle_timeout)", p.IdleTimeout)
		case <-c.full:
			stopped = c.exceeded()
		}
	}
	_ = s.orders.SetWriteDeadline(deadlineIn(s.reportTimeout))
	_ = room.WriteStop(s.orders)
	timer := time.NewTimer(s.reportTimeout)
	defer timer.Stop()
	select {
	case <-s.reported:
	case <-timer.C:
		_ = s.cmd.Process.Kill() // finish ends its processes
		<-s.reported
	}
	return stopped, cancelled
}

// extendEvery is how often it looks whether a lease has been extended.
const extendEvery = time.Second

// extend tells the shim when the lease of the work is extended, until the channel is closed.
func (s *running) extend(lock session.Lock, ended <-chan struct{}) {
	if lock == nil || lock.Lease() == nil {
		return
	}
	ticker := time.NewTicker(extendEvery)
	defer ticker.Stop()
	var told time.Time
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		if until, lost := lock.Lease().Until(); !lost && until.After(told) {
			told = until
			_ = s.orders.SetWriteDeadline(deadlineIn(extendEvery))
			more := time.Until(until)               //nolint:forbidigo // leases last in real time
			_ = room.WriteExtension(s.orders, more) // a shim that does not read has ended or will end
		}
	}
}

// deadlineIn returns the deadline of a pipe after a time.
func deadlineIn(d time.Duration) time.Time { return time.Now().Add(d) } //nolint:forbidigo // deadlines of pipes are in real time

// Forever is longer than any process runs.
const Forever = time.Duration(math.MaxInt64)

// after closes a channel after a time without waits; zero: never.
func after(waits *session.PausedTime, d time.Duration, over chan struct{}) *session.Timer {
	return waits.AfterFunc(cmp.Or(d, Forever), sync.OnceFunc(func() { close(over) }))
}

// finish waits for the end of the shim and its output and, if the shim was killed, kills its processes.
func (s *running) finish(c *Capture) (room.Report, error) {
	waited := s.cmd.Wait()
	broken := s.reportErr
	if broken != nil {
		if waited != nil {
			broken = fmt.Errorf("%w (%w)", broken, waited)
		}
		if n := proctree.EndOrphans(s.started); n > 0 {
			broken = fmt.Errorf("%w; %d remaining processes could not be killed", broken, n)
		}
	}
	s.close()
	_, _ = c.Stdout.Close(), c.Stderr.Close() // they never fail
	return s.report, broken
}
