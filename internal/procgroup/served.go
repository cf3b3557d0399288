package procgroup

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/room"
)

// Service is a server of the worker that a process reaches in a room with a network of its
// own. The process reaches nothing else of the worker or the host by it.
type Service struct {
	// Port is the TCP port of 127.0.0.1 in the room. Nothing else is there when a room is made,
	// so that any port above 1023 can be chosen before.
	Port uint16
	// Serve accepts connections until the listener fails. It is called at most once for a
	// process, before the process starts. The listener is closed when the process and all its
	// descendants are gone. [Launcher.Run] returns after Serve has returned. log is that of the
	// process, for lines of the server.
	Serve func(l net.Listener, log *Capture)
}

// served reads what a shim sends: the listening sockets of its room, if it has services, and
// its report.
type served struct {
	conn      *net.UnixConn
	services  []Service
	log       *Capture
	listeners []net.Listener
	serving   sync.WaitGroup
}

// open makes the socket and returns the shim's end of it.
func (s *served) open() (theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "report"), os.NewFile(uintptr(pair[1]), "report") // not negative
	defer ours.Close()                                                                             //nolint:errcheck // the connection has a descriptor of its own
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use a pair of sockets: %w", err), theirs.Close())
	}
	s.conn = conn.(*net.UnixConn) //nolint:forcetypeassert // as it was made
	return theirs, nil
}

// Read reads the bytes of the report. Sockets that come with them are served.
func (s *served) Read(p []byte) (int, error) {
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
func (s *served) serve(rights []byte) error {
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
		return fmt.Errorf("%d sockets came for %d services: too many files are open", len(s.listeners), len(s.services))
	}
	for i, l := range s.listeners {
		s.serving.Go(func() { s.services[i].Serve(l, s.log) })
	}
	return nil
}

// end ends the services. The report has been read.
func (s *served) end() {
	for _, l := range s.listeners {
		_ = l.Close() // its network is gone
	}
	s.serving.Wait()
}

func (s *served) close() {
	if s.conn != nil {
		_ = s.conn.Close() // only read
	}
}
