package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/workflows"
)

// world is everything that a session runs in.
type world struct {
	// chain names the runs that continue each other as new.
	chain string
	plan  Plan
	dir   string
	store *store.Store
	key   session.Key
	began time.Time
	// inside says which process a goroutine is that is in the store.
	inside sync.Map
	// tears: the plan has faults in the middle of writes.
	tears bool

	mu        sync.Mutex
	counts    map[string]int
	processes int
	slots     [2]*process
	back      [2]time.Time
	every     []*process
	over      bool
	// breakers is held while a breaker is changed.
	breakers sync.Mutex

	// current is the run at work, and since when; holders are those that have
	// the assignments' locks.
	current int
	since   time.Time
	holders map[spec.AssignmentID]int
	// atEnd is called when the session closes; closing: it has been.
	atEnd   func()
	closing atomic.Bool

	watch watch
	// lines is what happened, with every call of a port if it is told in full.
	lines []string
	told  bool
}

// now is how long the session has been at work.
func (w *world) now() time.Duration { return time.Since(w.began) }

func (w *world) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
	return w.counts[what]
}

// latency is how long a call takes: up to some milliseconds, now and then more.
func (w *world) latency(op string, n int) time.Duration {
	h := hash(w.plan.Seed, op, n)
	most := 3 * time.Millisecond
	if h%41 == 0 {
		most = 400 * time.Millisecond
	}
	return time.Duration(1 + (h>>8)%uint64(most))
}

// moment is up to a millisecond: what begins at the same time begins one after the other,
// in the same order each time.
func (w *world) moment(of string, n int) time.Duration {
	return time.Duration(1 + hash(w.plan.Seed, of, n)%uint64(time.Millisecond))
}

// due returns the fault that is to happen at the n-th call of an operation.
func (w *world) due(op string, n int) *Fault {
	for _, f := range w.plan.Faults {
		last := f.N + f.Times
		if f.Kind == Break {
			last += 2
		}
		if f.Op == op && f.N <= n && n <= last && f.Kind != Tear && f.Kind != Twice {
			return &f
		}
	}
	return nil
}

// twice reports whether this execution of an activity is given up while it still works.
func (w *world) twice(name string) bool {
	for _, f := range w.plan.Faults {
		if f.Kind == Twice && name == string(activities.RoundName) && w.count("round for "+f.String()) == f.N {
			return true
		}
	}
	return false
}

func (w *world) within(o Window) bool {
	at := w.now()
	return o.From.Std() <= at && at < o.From.Std()+o.For.Std()
}

// away reports whether something cannot be reached now.
func (w *world) away(what string) bool {
	for _, o := range w.plan.Windows {
		if o.What == what && w.within(o) {
			return true
		}
	}
	return false
}

func (w *world) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// choose returns a process that takes work, that of a slot if it is up; nil: none is. One
// that has died or stopped comes back after a while.
func (w *world) choose(first int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.slots {
		slot := (i + first) % len(w.slots)
		p := w.slots[slot]
		if p != nil && !p.takesWork() {
			w.slots[slot], p = nil, nil
			w.back[slot] = time.Now().Add(time.Duration(hash(w.plan.Seed, "restart", w.processes) % uint64(20*time.Second)))
		}
		if p == nil && !time.Now().Before(w.back[slot]) {
			p = w.newProcess()
			w.slots[slot] = p
			w.every = append(w.every, p)
		}
		if p != nil {
			return p
		}
	}
	return nil
}

// takesWork reports whether the process is neither dead nor stopping nor stopped.
func (p *process) takesWork() bool {
	select {
	case <-p.stopping:
		return false
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.isDead() && time.Now().After(p.frozen)
}

func (w *world) note(p *process, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	who := ""
	if p != nil {
		who = fmt.Sprintf(" process %d:", p.id)
	}
	w.lines = append(w.lines, fmt.Sprintf("%12s%s %s", w.now().Round(time.Millisecond), who, fmt.Sprintf(format, args...)))
}

func (w *world) trace(p *process, op string, n int, err error) {
	if w.told {
		w.note(p, "%s #%d: %v", op, n, err)
	}
}

func (w *world) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (w *world) lostAlready() bool { return w.plan.Lost > 0 && w.now() >= w.plan.Lost.Std() }

// clockActivity is at work as long as the session is, so that the environment's clock
// follows the world's instead of running ahead.
const clockActivity = "clock"

// result is what became of a plan.
type result struct {
	Broken []string
	Lines  []string
	Took   time.Duration
	State  session.State
}

// simulate runs a plan to its end, in a world of its own.
func simulate(t *testing.T, plan Plan) result { return simulateTold(t, plan, *told) }

func simulateTold(t *testing.T, plan Plan, told bool) result {
	t.Helper()
	dir, err := os.MkdirTemp(shm(), "maestro-simulator-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	var r result
	synctest.Test(t, func(*testing.T) {
		w := &world{
			plan: plan, told: told, dir: filepath.Join(dir, "s"), counts: map[string]int{},
			holders: map[spec.AssignmentID]int{}, began: time.Now(),
		}
		w.watch = watch{
			world: w, results: map[activityKey]bool{}, newest: map[spec.AssignmentID]*task{},
			startedBy: map[spec.AssignmentID]*process{}, losses: map[spec.AssignmentID]int{},
			finished: map[spec.AssignmentID]bool{}, until: map[spec.AssignmentID]refused{},
			advanced: map[spec.AssignmentID]bool{}, inRow: map[spec.AssignmentID]int{},
		}
		w.tears = plan.tears()
		failpoint.Observe(w.atFailpoint)
		defer failpoint.Observe(nil)
		w.run()
		r = result{Broken: w.watch.broken, Lines: w.lines, Took: w.now(), State: w.watch.state}
	})
	return r
}

// shm is where stores are fastest.
func shm() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func (w *world) run() {
	s, err := store.Create(w.dir, store.Options{Clock: time.Now})
	if err != nil {
		panic(err)
	}
	w.store, w.key = s, session.Key{Namespace: "default-test-namespace", Session: "session"}
	in := w.input()
	for run := 1; ; run++ {
		lost, err := w.runOnce(in, run)
		w.note(nil, "run %d ended: %v", run, err)
		var again *workflow.ContinueAsNewError
		if errors.As(err, &again) {
			in = w.continues(again)
			continue
		}
		if !lost {
			w.watch.ended(err)
			w.watch.writtenOff()
			break
		}
		w.sleep(context.Background(), time.Minute)
		in = w.resume(in)
	}
	// Those that were stopped continue, and find that it is over.
	w.watch.remember()
	time.Sleep(5 * time.Hour)
	w.mu.Lock()
	w.over = true
	every := w.every
	w.mu.Unlock()
	for _, p := range every {
		p.kill("the end")
	}
	time.Sleep(11 * 24 * time.Hour) // every goroutine ends at its next call, at the latest after its activity's time
	w.watch.atEnd()
	for _, p := range every {
		_ = p.store.Close()
	}
	_ = w.store.Close()
}

// input is what starts the session.
func (w *world) input() workflows.SessionInput {
	put := func(v any) spec.Digest {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return w.put(data)
	}
	workspace, err := w.store.Content.PutManifest(context.Background(), w.entries(w.plan.workspace()))
	if err != nil {
		panic(err)
	}
	return workflows.SessionInput{Version: workflows.LogicVersion, Start: session.Start{
		Store: w.store.ID(), Team: put(w.plan.Team), Requirement: w.put([]byte("work")), Workspace: workspace,
	}}
}

func (w *world) put(data []byte) spec.Digest {
	name, err := w.store.Content.PutBlob(context.Background(), data)
	if err != nil {
		panic(err)
	}
	return name
}

// resume is what continues with a session that Temporal has lost, as `maestro resume` does.
func (w *world) resume(in workflows.SessionInput) workflows.SessionInput {
	in.Run, in.Continued = max(in.Run, 1)+1, nil
	found, err := w.store.Checkpoints(context.Background(), w.key)
	if len(found) == 0 {
		w.note(nil, "nothing to resume: %v", err)
		return in
	}
	in.Base = found[0].Name
	in.Run = max(in.Run, found[0].Run+1)
	return in
}

// runOnce runs the session in a Temporal of its own; lost tells that this was lost.
func (w *world) runOnce(in workflows.SessionInput, n int) (lost bool, err error) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(forever)
	env.SetStartTime(time.Now())
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: w.key.Session})
	d := &delivery{
		world: w, run: fmt.Sprintf("run-%d", n), chain: fmt.Sprintf("run-%d", n), closed: make(chan struct{}),
		scheduled: map[string]*task{},
	}
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{d}, DeadlockDetectionTimeout: forever})
	register(env)
	env.RegisterWorkflowWithOptions(teamSession, workflow.RegisterOptions{Name: workflows.TeamSessionName})
	const patience = 24 * time.Hour
	limit := patience
	if w.plan.Lost > 0 && n == 1 {
		limit = w.plan.Lost.Std()
	}
	env.SetWorkflowRunTimeout(limit)
	w.mu.Lock()
	w.current, w.since = n, time.Now()
	w.mu.Unlock()
	w.suggest(env, d, in, n)
	w.visits(env)
	env.ExecuteWorkflow(workflows.TeamSessionName, in)
	close(d.closed)
	err = env.GetWorkflowError()
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		if n == 1 && w.plan.Lost > 0 {
			return true, err
		}
		w.watch.broke("liveness", "the session has not ended after %s", patience)
	}
	return false, err
}

// teamSession is the session and, beside it, the clock.
func teamSession(ctx workflow.Context, in workflows.SessionInput) (workflows.SessionResult, error) {
	calm, _ := workflow.NewDisconnectedContext(ctx)
	workflow.ExecuteActivity(workflow.WithActivityOptions(calm, workflow.ActivityOptions{StartToCloseTimeout: forever}),
		clockActivity, forever)
	return workflows.TeamSession(ctx, in)
}

// register has each activity run in the process that its execution is in.
func register(env *testsuite.TestWorkflowEnvironment) {
	add := func(name activities.Name, f any) {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: string(name)})
	}
	add(activities.AdmitName, in(func(p *process) *activities.Admissions { return p.admissions }, (*activities.Admissions).Admit))
	add(activities.RoundName, in(func(p *process) *activities.Rounds { return p.rounds }, (*activities.Rounds).Run))
	add(activities.MergeName, in(func(p *process) *activities.Merges { return p.merges }, (*activities.Merges).Merge))
	boundaries := func(p *process) *activities.Boundaries { return p.boundaries }
	add(activities.AdvanceName, in(boundaries, (*activities.Boundaries).Advance))
	add(activities.WriteStatusName, in(boundaries, (*activities.Boundaries).WriteStatus))
	add(activities.ReworkName, in(boundaries, (*activities.Boundaries).Rework))
	add(activities.RaiseName, in(boundaries, (*activities.Boundaries).Raise))
	add(activities.AwaitBreakerName, in(func(p *process) *activities.BreakerWaits { return p.waits },
		(*activities.BreakerWaits).Await))
	add(activities.NotifyName, in(func(p *process) *activities.Notices { return p.notices }, (*activities.Notices).Notify))
	add(activities.AwaitBudgetName, func(ctx context.Context, in activities.AwaitBudgetInput) error {
		return executionOf(ctx).p.budgets.Await(ctx, in)
	})
	add(activities.CloseName, func(ctx context.Context, in activities.CloseInput) error {
		p := executionOf(ctx).p
		if p.world.atEnd != nil {
			p.world.closing.Store(true)
			p.world.atEnd()
			p.world.sleep(ctx, 2*time.Second) // people come while it is written
		}
		return p.boundaries.Close(ctx, in)
	})
	env.RegisterActivityWithOptions(func(context.Context, time.Duration) error { return nil },
		activity.RegisterOptions{Name: clockActivity})
}

// in calls an activity's method in the process of the execution.
func in[R, I, O any](of func(*process) R, method func(R, context.Context, I) (O, error)) func(context.Context, I) (O, error) {
	return func(ctx context.Context, input I) (O, error) { return method(of(executionOf(ctx).p), ctx, input) }
}

// held hears who has an assignment's lock; waited that somebody waits for it.
func (w *world) held(id spec.AssignmentID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders[id] = w.current
}

// first reports whether the first run is at work.
func (w *world) first() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current <= 1
}

func (w *world) waited(id spec.AssignmentID) {
	w.mu.Lock()
	late := w.holders[id] < w.current && time.Since(w.since) > time.Minute
	w.mu.Unlock()
	if late && !w.anyFrozen(time.Now().Add(-10*time.Second)) {
		w.watch.broke("P8", "an executor of an earlier run still holds the lock of %s", id)
	}
}

// anyFrozen reports whether a process was stopped since.
func (w *world) anyFrozen(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.every, func(p *process) bool { return p.wasFrozen(since) })
}

// text is a violation and what led to it.
func (r result) text(plan Plan) string {
	var b strings.Builder
	data, _ := json.MarshalIndent(plan, "", "  ")
	fmt.Fprintf(&b, "plan: %s\n", data)
	for _, line := range r.Lines {
		fmt.Fprintln(&b, line)
	}
	for _, broken := range r.Broken {
		fmt.Fprintln(&b, "BROKEN", broken)
	}
	return b.String()
}
