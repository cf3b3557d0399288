package room

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

// supervise is the main function of a shim. It returns the exit status.
//
// It runs in one goroutine, and another one for what an agent can make slow.
func supervise() int {
	// The agent dies with this thread (PDEATHSIG), so the thread must not end before the process.
	runtime.LockOSThread()
	if err := prepare(); err != nil {
		return complain(err)
	}
	disregardSignals()
	worker := os.NewFile(ordersFD, "orders")
	o, err := readOrders(worker)
	if err != nil {
		return complain(fmt.Errorf("read its orders; only workers can start it: %w", err))
	}
	report, err := json.Marshal((&supervisor{worker: worker, orders: o}).enterAndRun())
	if err != nil {
		return complain(fmt.Errorf("encode its report: %w", err))
	}
	_, _ = unix.Write(reportFD, report) // fails if the worker has died
	return 0
}

func complain(err error) int {
	fmt.Fprintf(os.Stderr, "maestro: the shim cannot %v\n", err)
	return 2
}

// supervisor starts one argv and ends all its descendants.
type supervisor struct {
	// worker sends the orders, then bytes: see stopByte. The end means that the worker has died.
	worker *os.File
	orders Orders
	// pid is the argv's process. pidfd is readable once it has ended, and negative if the kernel
	// does not support it.
	pid, pidfd int
	// status is how the process has ended; nil: it has not.
	status *unix.WaitStatus
	// leased is until when the argv may run; zero: without a bound.
	leased time.Time
}

// enterAndRun creates the room, if there is one, and runs the argv in it.
func (s *supervisor) enterAndRun() Report {
	if build := Build(); build != s.orders.Build {
		return Report{RoomError: fmt.Sprintf("%s is of build %q and the worker of %q; restart the worker", ProgramName, build,
			s.orders.Build)}
	}
	if room := s.orders.Room; room != nil {
		if err := room.enter(s.orders.Ports); err != nil {
			return Report{RoomError: err.Error(), RoomForbidden: Forbids(err)}
		}
	}
	return s.run()
}

func (s *supervisor) run() Report {
	checks, err := startChecks(&s.orders)
	if err != nil {
		return Report{RoomError: fmt.Sprintf("start the checks of limits: %v", err)}
	}
	err = s.startBounded()
	closeStreams()
	if err != nil {
		return notStarted(err)
	}
	s.extend(s.orders.Lease)
	ended, over := s.await(checks)
	killed, survivors := proctree.EndDescendants(s.pid, s.reap)
	delete(killed, s.pid)
	r := Report{
		Unkillable: survivors, ThreadsExceeded: over.threads, MemoryExceeded: over.memory, Immeasurable: over.slow,
		LeaseEnded: over.lease,
	}
	if ended {
		r.Leftover = len(killed)
	}
	switch {
	case s.status == nil: // it could not be killed, and is counted as unkillable
	case s.status.Signaled():
		r.Signal = int(s.status.Signal())
	default:
		r.Exit = s.status.ExitStatus()
	}
	return r
}

// await returns when the argv's process has ended. ended is false if it has to be killed; over is the limit that it has
// exceeded then.
func (s *supervisor) await(limits *checks) (ended bool, over excess) {
	const worker, process, check = 0, 1, 2
	events := []unix.PollFd{
		worker:  {Fd: ordersFD, Events: unix.POLLIN},
		process: {Fd: int32(s.pidfd), Events: unix.POLLIN},             //nolint:gosec // descriptors are small
		check:   {Fd: int32(limits.endedFD.Fd()), Events: unix.POLLIN}, //nolint:gosec // descriptors are small
	}
	kill := time.Time{}
	limits.next = time.Now().Add(checkInterval)
	for {
		if s.reap(); s.status != nil {
			return true, excess{}
		}
		now := time.Now()
		if !kill.IsZero() && now.After(kill) {
			return false, excess{}
		}
		if !s.leased.IsZero() && now.After(s.leased) {
			return false, excess{lease: true}
		}
		if over := limits.advance(now); over != (excess{}) {
			return false, over
		}
		wake := limits.next
		for _, end := range []time.Time{kill, s.leased} {
			if !end.IsZero() && end.Before(wake) {
				wake = end
			}
		}
		// The signal of a child's end interrupts the poll. Then adopted children are reaped.
		left := max(time.Until(wake)+time.Millisecond, 0)
		if n, err := unix.Poll(events, int(left.Milliseconds())); err != nil || n == 0 {
			continue
		}
		if events[process].Revents != 0 {
			events[process].Fd = -1 // a process that another one traces has ended and cannot be waited for yet
		}
		if events[worker].Revents == 0 {
			continue
		}
		var said [1]byte
		if n, _ := s.worker.Read(said[:]); n == 0 {
			return false, excess{}
		}
		if said[0] != stopByte {
			s.extend(time.Duration(said[0]) * time.Second)
			continue
		}
		if kill.IsZero() {
			kill = now.Add(s.orders.Grace)
			_ = syscall.Kill(-s.pid, syscall.SIGTERM) // it may have ended already
		}
	}
}

// extend lets the argv run for some time from now on, if it has a lease.
func (s *supervisor) extend(more time.Duration) {
	if s.orders.Lease > 0 {
		s.leased = time.Now().Add(more)
	}
}

// reap reaps all children that have ended, including adopted ones, so that no zombies remain.
// alone reports whether no child is left. If children keep ending, some are left for the next
// call.
func (s *supervisor) reap() (alone bool) {
	const most = 1000
	for range most {
		var status unix.WaitStatus
		child, err := unix.Wait4(-1, &status, proctree.WaitAll|unix.WNOHANG, nil)
		switch {
		case err != nil: // ECHILD is the only possible error
			return true
		case child == 0:
			return false
		case child == s.pid:
			s.status = &status
		}
	}
	return false
}

// startBounded starts the argv with its limits. A floor restricts a separate thread: if it
// restricted the first thread, the argv's processes could send signals to the shim.
func (s *supervisor) startBounded() (err error) {
	o := &s.orders
	begin := func() {
		if err = errors.Join(o.limit(), o.Floor.apply(o.asRoot())); err == nil {
			err = s.start()
		}
	}
	if o.Floor == nil {
		begin()
		return err
	}
	started := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		begin()
		close(started)
		select {} // the argv dies with this thread
	}()
	<-started
	return err
}

func (s *supervisor) start() error {
	o := s.orders
	program, err := LookUp(o.Argv[0], o.Dir, o.Env)
	if err != nil {
		return err
	}
	if err := os.Chdir(o.Dir); err != nil {
		return fmt.Errorf("enter the directory: %w", err)
	}
	attr := &syscall.ProcAttr{
		Env:   o.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   s.attributes(),
	}
	if u := o.User; u != nil {
		attr.Dir = o.Dir // entered as that user, so that its permissions apply
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	s.pid, err = syscall.ForkExec(program, o.Argv, attr)
	if err != nil && o.User != nil && errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("start %s in %s as user %s: %w", program, o.Dir, o.User.Name, err)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	return nil
}

// notStarted reports why there is no process.
func notStarted(err error) Report {
	scarce := func(e error) bool { return errors.Is(err, e) }
	return Report{StartError: err.Error(), Temporary: slices.ContainsFunc(
		[]error{syscall.EAGAIN, syscall.ENOMEM, syscall.ENFILE, syscall.EMFILE, syscall.ETXTBSY, syscall.EIO}, scarce)}
}

// closeStreams closes the agent's descriptors in the shim, so that the worker's pipes end with the
// agent's processes.
func closeStreams() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil || dup(null, fd) != nil {
			_ = unix.Close(fd)
		}
	}
}

// LookUp returns the path of a program, searched in dir with this environment as a shell does.
func LookUp(program, dir string, env []string) (string, error) {
	if strings.Contains(program, "/") {
		full := program
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, full)
		}
		if err := executable(full); err != nil {
			return "", fmt.Errorf("start %s: %w", program, err)
		}
		return full, nil
	}
	path := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue // a relative PATH would find programs in the tree
		}
		if full := filepath.Join(d, program); executable(full) == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("start %s: not found in PATH %q", program, path)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err.(*os.PathError).Err //nolint:errorlint,forcetypeassert // what os.Stat promises; the path is named by the caller
	case info.IsDir():
		return syscall.EISDIR
	case info.Mode()&0o111 == 0:
		return syscall.EACCES
	}
	return nil
}
