package procgroup

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// Service is a server in the worker that a process can reach from a room with a network of its
// own. It gives no access to anything else of the worker or the host.
type Service struct {
	// Port is the TCP port of 127.0.0.1 in the room. A new room has no other listener, so any
	// port above 1023 is free.
	Port uint16
	// Serve accepts connections until the listener fails. It is called at most once for a
	// process, before the process starts. The listener is closed when the process and all its
	// descendants have ended. [Launcher.Run] returns after Serve has returned. log is the log of the
	// process, for lines of the server.
	Serve func(l net.Listener, log *Capture)
}

// reportConn reads what a shim sends: the listening sockets of its room, if it has services, and
// its report.
type reportConn struct {
	conn      *net.UnixConn
	services  []Service
	log       *Capture
	listeners []net.Listener
	serving   sync.WaitGroup
}

// open makes the pair of sockets and returns the shim's end of it.
func (s *reportConn) open() (theirs *os.File, err error) {
	syscall.ForkLock.RLock() // no process that is started meanwhile inherits them
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(pair[0])
		unix.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "report"), os.NewFile(uintptr(pair[1]), "report")
	defer ours.Close() //nolint:errcheck // the connection has a descriptor of its own
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use a pair of sockets: %w", err), theirs.Close())
	}
	s.conn = conn.(*net.UnixConn) //nolint:forcetypeassert // as it was made
	return theirs, nil
}

// Read reads the bytes of the report. It starts the services with the sockets that it receives.
func (s *reportConn) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4*room.MaxPorts))
	n, rights, flags, _, err := s.conn.ReadMsgUnix(p, oob)
	if rights > 0 || flags&unix.MSG_CTRUNC != 0 {
		if e := s.serve(oob[:rights]); e != nil {
			return 0, fmt.Errorf("serve in the room: %w", e)
		}
	}
	return n, err
}

// serve starts the services with the sockets of a control message.
func (s *reportConn) serve(rights []byte) error {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return err
	}
	for _, m := range messages {
		sockets, err := unix.ParseUnixRights(&m)
		if err != nil {
			return err
		}
		for _, fd := range sockets {
			f := os.NewFile(uintptr(fd), "listener") // not negative
			l, e := net.FileListener(f)
			_ = f.Close() // the listener has a descriptor of its own
			if e == nil {
				s.listeners = append(s.listeners, l)
			}
			err = errors.Join(err, e)
		}
		if err != nil {
			return err
		}
	}
	if len(s.listeners) != len(s.services) {
		return fmt.Errorf("received %d sockets for %d services: too many files are open", len(s.listeners), len(s.services))
	}
	for i, l := range s.listeners {
		s.serving.Go(func() { s.services[i].Serve(l, s.log) })
	}
	return nil
}

// stopServices ends the services. The report must have been read.
func (s *reportConn) stopServices() {
	for _, l := range s.listeners {
		_ = l.Close() // its network is gone
	}
	s.serving.Wait()
}

func (s *reportConn) close() {
	if s.conn != nil {
		_ = s.conn.Close() // only read
	}
}
