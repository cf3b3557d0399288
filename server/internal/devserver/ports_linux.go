package devserver

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// holdPort binds a port without listening on it. The bind is exclusive, so two processes never hold one port; reuse is
// allowed only afterwards, which lets a listener of this process (Go's always ask for reuse) open the port while it is
// held. Nothing else gets it: the system gives bound ports to nobody.
func holdPort(ip string, port int) (func(), error) {
	family, address, err := socketAddress(ip, port)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	release := func() { _ = syscall.Close(fd) }
	if err := syscall.Bind(fd, address); err != nil {
		release()
		return nil, os.NewSyscallError("bind", err)
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		release()
		return nil, os.NewSyscallError("setsockopt", err)
	}
	return release, nil
}

func socketAddress(ip string, port int) (int, syscall.Sockaddr, error) {
	parsed := net.ParseIP(ip)
	if v4 := parsed.To4(); v4 != nil {
		return syscall.AF_INET, &syscall.SockaddrInet4{Port: port, Addr: [4]byte(v4)}, nil
	}
	if parsed == nil {
		return 0, nil, fmt.Errorf("%q is not an IP address", ip)
	}
	return syscall.AF_INET6, &syscall.SockaddrInet6{Port: port, Addr: [16]byte(parsed)}, nil
}
