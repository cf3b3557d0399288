package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

const (
	// A server that was killed a moment ago may still hold its port while the kernel clears it away.
	portPatience = 2 * time.Second
	portPause    = 25 * time.Millisecond
)

// ports are the ports of one server.
type ports struct{ frontend, history, matching, worker, ui int }

// choosePorts checks the ports that were asked for and takes free ones for the rest.
func choosePorts(ctx context.Context, o Options) (p ports, err error) {
	p.frontend = o.Port
	free := []*int{&p.history, &p.matching, &p.worker}
	if o.Port == 0 {
		free = append(free, &p.frontend)
	} else if err := checkPort(ctx, "port", o.IP, o.Port, portPatience); err != nil {
		return p, err
	}
	beside := o.Port + uiPortOffset
	switch {
	case o.Headless:
	case o.UIPort != 0:
		p.ui = o.UIPort
		err = checkPort(ctx, "ui-port", o.IP, o.UIPort, portPatience)
	case o.Port != 0 && checkPort(ctx, "ui-port", o.IP, beside, 0) == nil:
		p.ui = beside
	default:
		free = append(free, &p.ui)
	}
	for _, port := range free {
		ip := internalIP
		if port == &p.frontend || port == &p.ui {
			ip = o.IP
		}
		taken, failed := freePort(ctx, ip)
		*port, err = taken, errors.Join(err, failed)
	}
	return p, err
}

// freePort returns a free port. A connection to it is closed from its side, so that the system gives the port to nobody
// for a minute unless it is asked for by its number.
func freePort(ctx context.Context, ip string) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return 0, fmt.Errorf("no free port on %s: %w", ip, err)
	}
	defer listener.Close() //nolint:errcheck // nothing was written
	outside, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return 0, fmt.Errorf("no free port on %s: %w", ip, err)
	}
	defer outside.Close() //nolint:errcheck // nothing was written
	inside, err := listener.Accept()
	if err != nil {
		return 0, fmt.Errorf("no free port on %s: %w", ip, err)
	}
	return listener.Addr().(*net.TCPAddr).Port, inside.Close()
}

// checkPort refuses a port that another process uses, and names the flag that chooses another. It waits a moment for a
// port that is just being given up.
func checkPort(ctx context.Context, flag, ip string, port int, patience time.Duration) error {
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if err == nil {
			return listener.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %d cannot be used: %w; choose another with --%s", port, err, flag)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return fmt.Errorf("port %d is in use by another process; stop that one, or choose another port with --%s", port, flag)
		case <-time.After(portPause):
		}
	}
}
