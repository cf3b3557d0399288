package devserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"
)

const (
	maxPort = 65535

	// Free ports are taken from below the range that Linux hands out by itself (32768 and up). So they collide
	// neither with outgoing connections nor with ports that a test has just asked the system for.
	firstFreePort = 20000
	lastFreePort  = 32767
	portTries     = 200

	// A server that was killed a moment ago may still hold its port while the kernel clears it away.
	portPatience = 500 * time.Millisecond
	portPause    = 25 * time.Millisecond
)

// reservation is a port that no other process can be given. Temporal opens its listeners itself, so the port has to
// stay open to it and closed to everyone else until then.
type reservation struct {
	port    int
	release func()
}

// reservePort takes a free port of an address. It fails only when hundreds in a row are taken.
func reservePort(ip string) (reservation, error) {
	var last error
	for range portTries {
		port := firstFreePort + rand.IntN(lastFreePort-firstFreePort+1) //nolint:gosec // G404: a free port is no secret.
		release, err := holdPort(ip, port)
		if err == nil {
			return reservation{port: port, release: release}, nil
		}
		last = err
	}
	return reservation{}, fmt.Errorf("no free port on %s: %w", ip, last)
}

// claimPort takes a port that was asked for, and waits a moment for one that is just being given up. Where connections
// of a former server linger, nobody can be kept from it: whoever takes it then makes the listener fail, which is
// reported, too.
func claimPort(ctx context.Context, what, ip string, port int) (reservation, error) {
	if release, err := holdPort(ip, port); err == nil {
		return reservation{port: port, release: release}, nil
	}
	address := net.JoinHostPort(ip, strconv.Itoa(port))
	var config net.ListenConfig
	deadline := time.NewTimer(portPatience)
	defer deadline.Stop()
	for {
		listener, err := config.Listen(ctx, "tcp", address)
		if err == nil {
			return reservation{port: port, release: func() {}}, listener.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return reservation{}, fmt.Errorf("cannot listen on %s for the %s: %w", address, what, err)
		}
		select {
		case <-ctx.Done():
			return reservation{}, ctx.Err()
		case <-deadline.C:
			return reservation{}, fmt.Errorf("cannot listen on %s for the %s: another process uses this port", address, what)
		case <-time.After(portPause):
		}
	}
}
