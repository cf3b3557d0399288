package room

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

const (
	// checkInterval is how often the shim checks the resource use of its argv.
	checkInterval = 250 * time.Millisecond
	// checkLimit is how long a check may take. An agent can make it slow.
	checkLimit = 10 * time.Second
	// measureShare limits the processor time for measurements to 1/measureShare.
	measureShare = 25
)

// excess is the use that exceeds a limit; zero if none is exceeded. slow: the use could not be measured in time.
type excess struct {
	threads int
	memory  int64
	slow    bool
	// lease: the worker has not said in time that the argv may run on.
	lease bool
}

// checks checks the resource use in a thread of its own: the end of the worker, a stop and a timeout never wait for it.
type checks struct {
	begin chan time.Time
	// ended has the result of each check. endedFD becomes readable with it.
	ended   chan excess
	endedFD *os.File
	// begun is when the check that has not ended was begun; zero: there is none. next is when the next one begins.
	begun, next time.Time
}

// startChecks starts the thread. In a room it gets the rights of the room's user, before the argv starts.
func startChecks(o *Orders) (*checks, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &checks{begin: make(chan time.Time, 1), ended: make(chan excess, 1), endedFD: read}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		if o.Room != nil {
			err = dropRights()
		}
		ready <- err
		use := resourceUse{orders: o}
		for now := range c.begin {
			use.check(now)
			c.ended <- use.excess
			_, _ = write.Write([]byte{1})
		}
	}()
	return c, <-ready
}

// advance begins the next check when it is due, and returns what the last one found to exceed a limit. A check that takes
// too long is such an excess.
func (c *checks) advance(now time.Time) (found excess) {
	select {
	case found = <-c.ended:
		_, _ = c.endedFD.Read(make([]byte, 1))
		c.begun = time.Time{}
	default:
	}
	switch {
	case c.begun.IsZero() && !now.Before(c.next):
		c.begun, c.next = now, now.Add(checkInterval)
		c.begin <- now
	case !c.begun.IsZero() && now.Sub(c.begun) > checkLimit:
		found.slow = true
	case !now.Before(c.next):
		c.next = now.Add(checkInterval)
	}
	return found
}

// resourceUse is the resource use of this process's descendants.
type resourceUse struct {
	orders *Orders
	// next is when it is measured again.
	next time.Time
	excess
}

// check measures the use, and raises what processes have lowered of their [oomScore]: the kernel keeps them from it only
// where the worker may set the minimum, see [RaiseOOMScore]. It is due again after a multiple of the processor time that it
// has taken.
func (u *resourceUse) check(now time.Time) {
	if now.Before(u.next) {
		return
	}
	before := processorTime()
	procs := proctree.Below(os.Getpid())
	if n := proctree.Threads(procs); n > u.orders.MaxThreads {
		u.threads = n
		return
	}
	raiseScores(procs)
	if most := u.orders.MaxMemory; most > 0 {
		if n := proctree.Memory(procs, most); n > most {
			u.memory = n
		}
	}
	u.next = now.Add(measureShare * (processorTime() - before))
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
