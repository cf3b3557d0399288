package simulator

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/worker/telemetry"
)

// process is a simulated worker process: the activities over ports that know when it is
// dead or stopped.
type process struct {
	world *world
	id    int
	store *store.Store

	mu sync.Mutex
	// dead is closed when the process is killed.
	dead chan struct{}
	// stopping is closed when the worker stops in an orderly way.
	stopping chan struct{}
	// frozen is when a stopped process continues.
	frozen time.Time
	locks  map[*lock]bool

	rounds     *activities.Rounds
	merges     *activities.Merges
	admissions *activities.Admissions
	boundaries *activities.Boundaries
	waits      *activities.BreakerWaits
	notices    *activities.Notices
	budgets    *activities.BudgetWaits
}

// lostLimit is the number of lost workers in a row that end a round.
const lostLimit = 5

func (w *world) newProcess() *process {
	s, err := store.Open(w.dir, store.Options{Clock: time.Now})
	if err != nil {
		panic(err)
	}
	w.processes++
	p := &process{
		world: w, id: w.processes, store: s, dead: make(chan struct{}), stopping: make(chan struct{}),
		locks: map[*lock]bool{},
	}
	fs, ss, db := files{s.Content, p}, sessions{s, p}, database{s.State, p}
	ws := workDirs{workdir.New(workdir.Options{
		Root:       filepath.Join(w.dir, "hosts", strconv.Itoa(p.id%max(w.plan.Hosts, 1))),
		MaxWritten: 10e9, Acquire: p.acquire,
	}), p}
	bs, as := breakers{p}, agents{p: p}
	clock, observer := time.Now, (*telemetry.Telemetry)(nil).Recorder()
	random := func() float64 { return float64(hash(w.plan.Seed, "random", w.count("random"))) / (1 << 64) }
	p.rounds = &activities.Rounds{
		Files: fs, WorkDirs: ws, Sessions: ss, State: db, Agents: as, Breakers: bs, Heartbeats: heartbeats{p}, Clock: clock,
		LostLimit: lostLimit, Drain: 5 * time.Second, Random: random, Observer: observer,
	}
	p.merges = &activities.Merges{Rounds: p.rounds}
	p.admissions = &activities.Admissions{
		Files: fs, Sessions: ss, State: db, SearchAttributes: attributes{}, Clock: clock, Observer: observer,
	}
	p.boundaries = &activities.Boundaries{Files: fs, Sessions: ss, State: db, Clock: clock, Observer: observer}
	p.waits = &activities.BreakerWaits{Breakers: bs, Heartbeats: heartbeats{p}, Clock: clock, Random: random}
	p.budgets = &activities.BudgetWaits{State: db, Random: random}
	p.notices = &activities.Notices{Recipients: recipients{p}, Mask: func(s string) string { return s }}
	return p
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// kill ends the process as kill -9 does: its locks are free, and none of its
// goroutines has an effect any more.
func (p *process) kill(why string) {
	p.mu.Lock()
	if p.isDead() {
		p.mu.Unlock()
		return
	}
	close(p.dead)
	locks := p.locks
	p.locks = map[*lock]bool{}
	p.mu.Unlock()
	p.world.note(p, "killed: %s", why)
	p.world.watch.died(p)
	for l := range locks {
		l.inner.Unlock()
	}
	if !p.world.isOver() {
		go func() {
			time.Sleep(p.world.moment("verify", p.id)) // in the middle of a write, a lock is held
			p.world.watch.verify()
		}()
	}
}

// stop has the worker stop in an orderly way; it is gone when its rounds are.
func (p *process) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stopping:
	default:
		close(p.stopping)
		p.world.note(p, "stops")
	}
}

// freeze stops the process for a while.
func (p *process) freeze(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = time.Now().Add(d)
	p.world.note(p, "stopped for %s", d)
}

// wasFrozen reports whether the process was stopped since.
func (p *process) wasFrozen(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen.After(since)
}

// alive returns if the process still is, after the time for which it was stopped;
// otherwise it ends the goroutine. The n-th calls of an operation continue one after the
// other, in the same order each time.
func (p *process) alive(op string, n int) {
	for {
		p.mu.Lock()
		wait := time.Until(p.frozen)
		p.mu.Unlock()
		if p.isDead() {
			runtime.Goexit()
		}
		if wait <= 0 {
			return
		}
		select {
		case <-time.After(wait + p.world.moment("go on "+op, n)):
		case <-p.dead:
		}
	}
}

// hearStop passes on that the process stops, to one execution after the other.
func (ex *execution) hearStop(ctx context.Context) {
	select {
	case <-ex.p.stopping:
		time.Sleep(ex.p.world.moment("stop "+ex.task.id, int(ex.attempt)))
		close(ex.stopping)
	case <-ctx.Done():
	}
}

// logger keeps what a process logs in the trace of a run that is told in full.
type logger struct{ p *process }

func (l logger) Debug(string, ...any)            {}
func (l logger) Info(msg string, about ...any)   { l.say(msg, about) }
func (l logger) Warn(msg string, about ...any)   { l.say(msg, about) }
func (l logger) Error(msg string, about ...any)  { l.say(msg, about) }
func (l logger) say(message string, about []any) { l.p.world.note(l.p, "log: %s %v", message, about) }

// errAway is the error of whatever is away.
var errAway = errors.New("it is away (simulated)")

// call is how every call of a port goes: the process may die before and after the
// effect, may be stopped, and the call may fail. It takes a little time, chosen by the
// seed, so that no two things happen at once. quick calls are made under a lock of the
// caller's and take none.
func call[T any](p *process, op string, quick bool, effect func() (T, error)) (T, error) {
	var none T
	n, fault := p.begin(op, quick)
	if fault != nil {
		switch fault.Kind {
		case KillBefore:
			p.kill(fault.String())
		case Freeze:
			if !quick {
				p.freeze(fault.For.Std())
			}
		case Stop:
			p.stop()
		case Slow:
			if !quick {
				p.world.note(p, "%s takes %s", op, fault.For)
				time.Sleep(fault.For.Std())
			}
		case Break:
			if !isStore(op) {
				break
			}
			p.world.note(p, "%s fails", op)
			return none, errAway
		case KillAfter, Tear, Twice: // later, or elsewhere
		}
	}
	if quick {
		if p.isDead() {
			runtime.Goexit()
		}
	} else {
		p.alive(op, n)
	}
	if p.world.away("store") && isStore(op) {
		return none, errAway
	}
	torn := p.world.tears && strings.HasPrefix(op, "Put") // these come to a failpoint of the store
	if torn {
		p.world.inside.Store(goroutine(), p)
	}
	result, err := effect()
	if torn {
		p.world.inside.Delete(goroutine())
	}
	p.world.trace(p, op, n, err)
	if fault != nil && fault.Kind == KillAfter {
		p.kill(fault.String())
	}
	if p.isDead() {
		runtime.Goexit()
	}
	return result, err
}

// isStore reports whether an operation is the store's.
func isStore(op string) bool {
	return op != "Run" && op != "Ask" && !strings.HasPrefix(op, "Program.") &&
		!strings.HasPrefix(op, "Check.") && op != "Beat" && op != "Complete" && op != "Notify"
}

// begin counts the call and takes its time.
func (p *process) begin(op string, quick bool) (int, *Fault) {
	if p.isDead() {
		runtime.Goexit()
	}
	n := p.world.count(op)
	if !quick {
		time.Sleep(p.world.latency(op, n))
	}
	return n, p.world.due(op, n)
}

// goroutine is the number of the running goroutine.
func goroutine() uint64 {
	var buffer [32]byte
	text := string(buffer[:runtime.Stack(buffer[:], false)])
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "goroutine "), " ")
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// atFailpoint is called at every failpoint in the store.
func (w *world) atFailpoint(point string, tear func()) {
	inside, ok := w.inside.Load(goroutine())
	if !ok {
		return
	}
	p := inside.(*process)
	op := point
	if tear != nil {
		op = "torn " + point
	}
	for _, f := range w.plan.Faults {
		if f.Kind != Tear && f.Kind != Freeze || !strings.Contains(op, " ") || !matches(op, f.Op) {
			continue
		}
		if w.count("fault "+f.String()) != f.N {
			continue
		}
		if f.Kind == Tear {
			if tear != nil {
				tear()
			}
			p.kill(f.String())
			w.inside.Delete(goroutine())
			runtime.Goexit()
		}
		if strings.Contains(op, "checkpoint") { // elsewhere a file's lock is held
			p.freeze(f.For.Std())
			p.alive(f.Op, f.N)
		}
	}
}

// matches reports whether a failpoint is the one that a fault names: "torn checkpoint_" is any
// torn write whose path has that in it.
func matches(point, name string) bool {
	if name == point {
		return true
	}
	rest, torn := strings.CutPrefix(name, "torn ")
	return torn && strings.HasPrefix(point, "torn ") && strings.Contains(point, rest)
}

// lock is an assignment's lock in the hands of a process.
type lock struct {
	inner session.Lock
	p     *process
}

func (l *lock) Fd() uintptr { return l.inner.Fd() }

func (l *lock) Lease() *session.Lease { return l.inner.Lease() }

func (l *lock) Unlock() {
	l.p.mu.Lock()
	held := l.p.locks[l]
	delete(l.p.locks, l)
	l.p.mu.Unlock()
	if held {
		l.inner.Unlock()
	}
}

type attributes struct{}

func (attributes) Ready(context.Context) bool { return true }

// recipients takes notices.
type recipients struct{ p *process }

func (o recipients) NotifyFailure(context.Context, string, activities.TicketNotice) error {
	return o.take()
}

func (o recipients) NotifyTicket(context.Context, string, activities.TicketNotice) error {
	return o.take()
}
func (o recipients) NotifyWebhook(context.Context, session.Notice) error { return o.take() }

func (o recipients) take() error {
	_, err := call(o.p, "Notify", false, func() (any, error) {
		if o.p.world.away("temporal") {
			return nil, errAway
		}
		return nil, nil
	})
	return err
}
