package localdev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Loopback is where everything listens.
	Loopback = "127.0.0.1"
	// A server that was killed a moment ago may still hold its port.
	portPatience = 2 * time.Second
	portPause    = 25 * time.Millisecond
)

// checkPort refuses a port that another process uses, and names the flag that chooses
// another. Port 0 stands for a free one.
func checkPort(ctx context.Context, flag string, port int) error {
	if port == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, portPatience)
	defer cancel()
	for {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
		if err == nil {
			return listener.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %d cannot be used: %w; choose another with --%s", port, err, flag)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-bounded.Done():
			return fmt.Errorf("port %d is in use by another process; stop that one, or choose another port with --%s", port, flag)
		case <-time.After(portPause):
		}
	}
}

// occupy takes a directory for this process. A second process is told who has
// it; the death of the first, however it comes, gives it back.
func occupy(dir string, pid int) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "dev.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take %s: %w", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 20))
		_ = f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("take %s: %w", dir, err)
		}
		return nil, fmt.Errorf("another `maestro dev` or `maestro demo` (process %s) is running on %s; stop it, use it, or choose another --state-dir",
			cmp.Or(strings.TrimSpace(string(holder)), "-"), filepath.Dir(dir))
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	}
	return func() { _ = f.Close() }, nil
}
