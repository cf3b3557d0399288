package room

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ShimArgument makes the worker's executable a shim. The second argument is then the
// worker's process id.
const ShimArgument = "__maestro-shim"

// The descriptors that a shim gets besides the agent's own three.
const (
	ordersFD = 3
	// reportFD is a Unix socket: besides the report it carries the sockets of [Orders.Ports].
	reportFD = 4
	// lockFD is the assignment's lock, where the worker holds one. The shim
	// does nothing with it but live: the lock is free when it is gone.
	lockFD = 5
)

// Shim makes this process a shim if it was started as one, and then never
// returns; otherwise it does nothing. Call it before anything else in the main
// of every program that runs agents, and in TestMain of tests that do.
func Shim() {
	if len(os.Args) >= 2 && os.Args[1] == ShimArgument {
		exit(supervise())
	}
}

// exit ends the process at once. os.Exit would have a build with the race
// detector wait for a second first, at the end of each attempt.
func exit(status int) { syscall.Exit(status) }

// Orders is what the worker tells a shim. It travels through a pipe, never
// through an argv or an environment, which other processes can read.
type Orders struct {
	// Build is the worker's [Build]: a shim of another one refuses.
	Build string
	Argv  []string
	// Dir is the working directory.
	Dir string
	// Env is the whole environment of the argv.
	Env []string
	// Grace is how long a stopped process has to end by itself.
	Grace time.Duration
	// User, if not nil, is who runs the argv.
	User *Account
	// MaxFile bounds the size of any file that is written, in bytes.
	MaxFile uint64
	// MaxThreads is how many threads the argv may have running, with all that
	// it started.
	MaxThreads int
	// MaxMemory is how many bytes of memory the argv may use, with all that it started; zero:
	// the shim does not measure it.
	MaxMemory int64
	// Terminal: standard input is a terminal that becomes the argv's controlling one.
	Terminal bool
	// Room, if not nil, is what the argv sees. The shim must have been started with the
	// attributes of its [Layout.Namespaces].
	Room *Layout
	// Floor, if not nil, bounds an argv without a room.
	Floor *Floor
	// Ports are TCP ports of 127.0.0.1 in a room with a network of its own, at most [MaxPorts].
	// Before the argv starts, the shim sends the worker sockets that listen there.
	Ports []uint16
}

// Report is what a shim tells its worker, once every process below it is gone.
type Report struct {
	// RoomError says why the room could not be made.
	RoomError string
	// StartError says why the argv could not be started.
	StartError string
	// Temporary: it could not for want of something that may be there later, like memory.
	Temporary bool
	// Exit is the exit status, Signal what killed the process instead.
	Exit   int
	Signal int
	// Leftover counts the processes that had outlived the argv's own.
	Leftover int
	// ThreadsExceeded is how many threads the argv was running when it was stopped for
	// having too many; zero: it was not.
	ThreadsExceeded int
	// MemoryExceeded is how many bytes of memory it was using when it was stopped for that;
	// zero: it was not.
	MemoryExceeded int64
	// Unkillable counts the processes that could not be killed.
	Unkillable int
}

// maxOrders bounds the orders, in bytes.
const maxOrders = 16 << 20

// WriteOrders sends the orders. The pipe then stays open as the shim's lifeline.
func WriteOrders(w io.Writer, o Orders) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode a shim's orders: %w", err)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(min(len(data), maxOrders+1))) // bounded
	if _, err := w.Write(append(frame, data...)); err != nil {
		return fmt.Errorf("write a shim's orders: %w", err)
	}
	return nil
}

// descriptor reads from an open file.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	for {
		switch n, err := unix.Read(int(d), p); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func readOrders(r io.Reader) (Orders, error) {
	var frame [4]byte
	if _, err := io.ReadFull(r, frame[:]); err != nil {
		return Orders{}, fmt.Errorf("read the orders: %w", err)
	}
	size := binary.BigEndian.Uint32(frame[:])
	if size > maxOrders {
		return Orders{}, errors.New("the orders are too long")
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return Orders{}, fmt.Errorf("read the orders: %w", err)
	}
	var o Orders
	if err := json.Unmarshal(data, &o); err != nil {
		return Orders{}, fmt.Errorf("read the orders: %w", err)
	}
	return o, nil
}
