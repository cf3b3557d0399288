package room

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// backlog is how many connections wait until the worker accepts them.
const backlog = 128

// listen opens sockets on ports of 127.0.0.1 in this process's network, sends them to the worker
// and closes them here.
func listen(ports []uint16) error {
	if len(ports) == 0 {
		return nil
	}
	var sockets []int
	defer func() {
		for _, fd := range sockets {
			_ = unix.Close(fd)
		}
	}()
	for _, port := range ports {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			sockets = append(sockets, fd)
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil {
			err = unix.Listen(fd, backlog)
		}
		if err != nil {
			return fmt.Errorf("listen at port %d of the room: %w", port, err)
		}
	}
	// A newline before the report, which is JSON, carries the sockets as ancillary data.
	if err := unix.Sendmsg(reportFD, []byte("\n"), unix.UnixRights(sockets...), nil, 0); err != nil {
		return fmt.Errorf("send the sockets of the room to the worker: %w", err)
	}
	return nil
}
