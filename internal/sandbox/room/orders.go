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
)

// ShimArgument makes the worker's executable run as a shim. The second argument is then the
// worker's process id.
const ShimArgument = "__maestro-shim"

// The descriptors of a shim in addition to the agent's standard streams.
const (
	ordersFD = 3
	// reportFD is a Unix socket for the report and for the sockets of [Orders.Ports].
	reportFD = 4
	// lockFD is the assignment's lock if the worker holds one. The shim does not use it. It
	// inherits it, so that the lock is held until the shim ends.
	lockFD = 5
)

// Shim runs this process as a shim if it was started as one, and then never returns. Otherwise it
// does nothing. Call it first in the main function of every program that runs agents, and in
// TestMain of tests that do.
func Shim() {
	if len(os.Args) >= 2 && os.Args[1] == ShimArgument {
		// With the race detector, os.Exit would wait for a second at the end of each attempt.
		syscall.Exit(supervise())
	}
}

// Orders are the worker's instructions to a shim. They are sent through a pipe, because other
// processes can read an argv or an environment.
type Orders struct {
	// Build is the worker's [Build]: a shim of another build refuses to run.
	Build string
	Argv  []string
	// Dir is the working directory.
	Dir string
	// Env is the complete environment of the argv.
	Env []string
	// Grace is how long a stopped process may take to end before it is killed.
	Grace time.Duration
	// User, if not nil, is the user that runs the argv.
	User *Account
	// MaxFile bounds the size of any written file, in bytes.
	MaxFile uint64
	// MaxThreads bounds the running threads of the argv and its descendants.
	MaxThreads int
	// UserThreads bounds all threads of the user that runs an argv without a room; zero: no bound.
	UserThreads uint64
	// MaxMemory bounds the memory of the argv and its descendants, in bytes; zero: the shim does
	// not measure it.
	MaxMemory int64
	// Room, if not nil, is the layout of the argv's room. The shim must have been started with
	// the attributes of its [Layout.Namespaces].
	Room *Layout
	// Floor, if not nil, restricts an argv without a room.
	Floor *Floor
	// Ports are TCP ports of 127.0.0.1 in a room with its own network, at most [MaxPorts]. Before
	// the argv starts, the shim sends the worker listening sockets.
	Ports []uint16
	// Lease, if not zero, is how long the argv may run until the worker writes to the pipe how much longer: another host may
	// do the same work then.
	Lease time.Duration
}

// A byte after the orders is stopByte, or for how many seconds from now on the argv may run.
const stopByte = 1

// maxExtension is the longest extension that a byte can say, in seconds.
const maxExtension = 255

// WriteStop tells a shim to stop its argv.
func WriteStop(w io.Writer) error {
	_, err := w.Write([]byte{stopByte})
	return err
}

// WriteExtension tells a shim that its argv may run for some time from now on. Less than two seconds say nothing.
func WriteExtension(w io.Writer, more time.Duration) error {
	seconds := min(int(more/time.Second), maxExtension)
	if seconds <= stopByte {
		return nil
	}
	_, err := w.Write([]byte{byte(seconds)})
	return err
}

// Report is sent by a shim to its worker once all processes below the shim have ended.
type Report struct {
	// RoomError is why the room could not be created. RoomForbidden: the host permits none, now or later.
	RoomError     string
	RoomForbidden bool
	// StartError is why the argv could not be started.
	StartError string
	// Temporary: the start failed for a reason that may not last, like a lack of memory.
	Temporary bool
	// Exit is the exit status, and Signal the signal that killed the process instead.
	Exit   int
	Signal int
	// Leftover is the number of processes that outlived the argv's own process.
	Leftover int
	// ThreadsExceeded is the number of threads if the argv was stopped for too many; else zero.
	ThreadsExceeded int
	// MemoryExceeded is the used memory in bytes if the argv was stopped for too much; else zero.
	MemoryExceeded int64
	// Immeasurable: the argv was stopped because its use could not be measured in time.
	Immeasurable bool
	// LeaseEnded: the argv was killed because its worker did not say in time that it may run on.
	LeaseEnded bool
	// Unkillable is the number of processes that could not be killed.
	Unkillable int
}

// MaxPorts is the largest number of ports on which a worker listens in one room.
const MaxPorts = 4

// maxOrders bounds the orders, in bytes.
const maxOrders = 16 << 20

// WriteOrders sends the orders. The pipe must stay open: when it is closed, the shim stops the
// argv.
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
