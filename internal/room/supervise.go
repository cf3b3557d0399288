package room

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/proctree"
)

// supervise is the main function of a shim. Its result is the exit status.
func supervise() int {
	// The agent is to die with this thread (PDEATHSIG), so the thread must not
	// end before the process does.
	runtime.LockOSThread()
	sacrifice()
	// No process may attach to the shim.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return complain("make itself undumpable", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return complain("become a subreaper", err)
	}
	// Agents inherit no open files of the worker or its parents.
	if err := unix.CloseRange(ordersFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		unix.CloseOnExec(ordersFD)
		unix.CloseOnExec(reportFD)
		unix.CloseOnExec(lockFD)
	}
	// Signals sent to the shim do nothing. They are caught and not ignored,
	// because an agent would inherit the latter. These are all that do something in a program of Go;
	// to name every signal would take longer than all else that the shim does.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	resetFaults()

	worker := os.NewFile(ordersFD, "orders")
	o, err := readOrders(worker)
	if err != nil {
		return complain("learn what to do; workers start it, nobody else can", err)
	}
	r := newSupervisor(o).enterAndRun(worker)
	// A worker that died reads no report.
	_ = json.NewEncoder(os.NewFile(reportFD, "report")).Encode(r)
	return 0
}

func complain(what string, err error) int {
	fmt.Fprintf(os.Stderr, "maestro: the shim cannot %s: %v\n", what, err)
	return 2
}

// supervisor starts one argv and ends all its descendants.
type supervisor struct {
	orders Orders
	// exited gets the wait status of the argv's own process.
	exited chan syscall.WaitStatus
	// alone is closed when the shim has no child left, dead or alive. As a
	// subreaper it then has no descendant either: the first ancestor of any
	// would be its child.
	alone chan struct{}
	// stop is closed when the worker asks for an end, lost when it has died.
	stop, lost chan struct{}
}

func newSupervisor(o Orders) *supervisor {
	return &supervisor{
		orders: o,
		exited: make(chan syscall.WaitStatus, 1),
		alone:  make(chan struct{}),
		stop:   make(chan struct{}),
		lost:   make(chan struct{}),
	}
}

// enterAndRun makes the room, if there is to be one, and runs the argv in it.
func (s *supervisor) enterAndRun(worker io.Reader) Report {
	if build := Build(); build != s.orders.Build {
		return Report{RoomError: fmt.Sprintf("%s is of build %q and the worker of %q; restart the worker", ProgramName, build, s.orders.Build)}
	}
	if room := s.orders.Room; room != nil {
		err := room.enter()
		if err == nil {
			err = listen(s.orders.Ports)
		}
		if err != nil {
			return Report{RoomError: err.Error()}
		}
	}
	return s.run(worker)
}

func (s *supervisor) run(worker io.Reader) Report {
	go s.listen(worker)
	pid, err := s.startBounded()
	silence()
	if err != nil {
		return notStarted(err)
	}
	go s.reap(pid)
	use := newUse(s.orders)
	status, ended := s.await(pid, use)
	killed, survivors := proctree.EndDescendants(s.alone)
	delete(killed, pid)
	r := Report{Unkillable: survivors, ThreadsExceeded: use.threads, MemoryExceeded: use.memory}
	if ended {
		r.Leftover = len(killed)
	} else {
		select {
		case status = <-s.exited:
		default: // it could not be killed, and is among the survivors
			return r
		}
	}
	if status.Signaled() {
		r.Signal = int(status.Signal())
	} else {
		r.Exit = status.ExitStatus()
	}
	return r
}

// await returns when the argv's process has ended or, with ended false, has to be killed.
func (s *supervisor) await(pid int, use *use) (status syscall.WaitStatus, ended bool) {
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	stop, grace := s.stop, (<-chan time.Time)(nil)
	for {
		select {
		case status = <-s.exited:
			return status, true
		case <-s.lost:
			return status, false
		case <-grace:
			return status, false
		case <-stop:
			stop, grace = nil, time.After(s.orders.Grace)
			_ = syscall.Kill(-pid, syscall.SIGTERM) // it may be gone already
		case now := <-check.C:
			if use.exceeded(now) {
				return status, false
			}
		}
	}
}

// listen reads the pipe from the worker: any byte means stop, and its end that the worker died.
func (s *supervisor) listen(worker io.Reader) {
	defer close(s.lost)
	var b [1]byte
	for stopped := false; ; {
		n, err := worker.Read(b[:])
		if n > 0 && !stopped {
			stopped = true
			close(s.stop)
		}
		if err != nil {
			return
		}
	}
}

// reap waits for every child, adopted ones too, so that none stays a zombie.
func (s *supervisor) reap(pid int) {
	for {
		var status syscall.WaitStatus
		child, err := syscall.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD, the only other that can be
			close(s.alone)
			return
		case child == pid:
			s.exited <- status
		}
	}
}

// startBounded starts the argv with its limits. A floor bounds a thread of its own: signals that
// its processes send to the shim would reach a first thread that it bounds, too.
func (s *supervisor) startBounded() (pid int, err error) {
	o := &s.orders
	begin := func() {
		if err = errors.Join(o.limit(), o.Floor.apply(o.asRoot())); err == nil {
			pid, err = s.start()
		}
	}
	if o.Floor == nil {
		begin()
		return pid, err
	}
	started := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		begin()
		close(started)
		select {} // the argv dies with this thread
	}()
	<-started
	return pid, err
}

func (s *supervisor) start() (int, error) {
	o := s.orders
	program, err := LookUp(o.Argv[0], o.Dir, o.Env)
	if err != nil {
		return 0, err
	}
	if err := os.Chdir(o.Dir); err != nil {
		return 0, fmt.Errorf("enter the directory: %w", err)
	}
	attr := &syscall.ProcAttr{
		Env:   o.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Setctty: o.Terminal},
	}
	if u := o.User; u != nil {
		attr.Dir = o.Dir // entered as that user, to find out whether it may
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	pid, err := syscall.ForkExec(program, o.Argv, attr)
	if err != nil && o.User != nil && errors.Is(err, syscall.EACCES) {
		return 0, fmt.Errorf("start %s in %s as user %s: %w", program, o.Dir, o.User.Name, err)
	}
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", program, err)
	}
	return pid, nil
}

// notStarted reports why there is no process.
func notStarted(err error) Report {
	scarce := func(e error) bool { return errors.Is(err, e) }
	return Report{StartError: err.Error(), Temporary: slices.ContainsFunc(
		[]error{syscall.EAGAIN, syscall.ENOMEM, syscall.ENFILE, syscall.EMFILE, syscall.ETXTBSY, syscall.EIO}, scarce)}
}

// silence closes the agent's descriptors in the shim, so that the worker's pipes end with the
// agent's processes.
func silence() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil || unix.Dup3(null, fd, 0) != nil {
			_ = unix.Close(fd)
		}
	}
}

// LookUp finds a program like a shell in dir with this environment.
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
