package simulator

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
)

// delivery is Temporal's delivery of activities: it starts executions in simulated
// processes, misses heartbeats, starts others in their place, and forgets what comes too
// late. It stands between the workflow's environment, which sees one execution of each
// activity, and the activities.
type delivery struct {
	interceptor.WorkerInterceptorBase
	world *world
	// chain is the first of the runs that continue each other as new, up to run.
	run, chain string
	// closed is closed when the workflow is over.
	closed chan struct{}

	mu sync.Mutex
	// scheduled are the options of the activities under way, by id.
	scheduled map[string]*task
}

// task is an activity that was scheduled.
type task struct {
	delivery *delivery
	id       string
	name     string
	options  workflow.ActivityOptions
	// fixes: it is a round that fixes a merged tree.
	mends bool

	mu        sync.Mutex
	cancelled bool
	// cancelling is closed when the workflow does not want the activity any more.
	cancelling chan struct{}
	// current is the execution whose end counts.
	current *execution
}

// execution is one start of an activity in a process.
type execution struct {
	task    *task
	p       *process
	attempt int32
	local   bool
	cancel  context.CancelCauseFunc
	beaten  time.Time
	done    chan outcome
	// stopping is closed soon after the process begins to stop.
	stopping chan struct{}
}

type outcome struct {
	result any
	err    error
}

type executionKey struct{}

func executionOf(ctx context.Context) *execution {
	ex, _ := ctx.Value(executionKey{}).(*execution)
	return ex
}

// beat takes a heartbeat.
func (ex *execution) beat() error {
	t := ex.task
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.delivery.closed:
		if t.delivery.world.lostAlready() {
			return errAway // the cluster is gone
		}
		return activities.ErrUnwanted
	default:
	}
	if t.current != ex {
		return activities.ErrReplaced
	}
	ex.beaten = time.Now()
	if t.cancelled {
		return activities.ErrUnwanted
	}
	return nil
}

// InterceptWorkflow lets the workflow's activities wait for their end when they are
// cancelled, which the environment does not.
func (d *delivery) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &workflowIn{interceptor.WorkflowInboundInterceptorBase{Next: next}, d}
}

type workflowIn struct {
	interceptor.WorkflowInboundInterceptorBase
	d *delivery
}

func (w *workflowIn) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return w.Next.Init(&workflowOut{interceptor.WorkflowOutboundInterceptorBase{Next: out}, w.d})
}

type workflowOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	d *delivery
}

func (w *workflowOut) GetInfo(ctx workflow.Context) *workflow.Info {
	info := *w.Next.GetInfo(ctx)
	info.WorkflowExecution.RunID = w.d.run
	info.OriginalRunID, info.FirstRunID = w.d.run, w.d.run
	return &info
}

func (w *workflowOut) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if name == clockActivity {
		return w.Next.ExecuteActivity(ctx, name, args...)
	}
	future, settle := workflow.NewFuture(ctx)
	if ctx.Err() != nil {
		settle.SetError(temporal.NewCanceledError())
		return future
	}
	o := workflow.GetActivityOptions(ctx)
	if o.ActivityID == "" {
		o.ActivityID = fmt.Sprintf("%s-%d", name, w.d.world.count("activity"))
	}
	t := &task{delivery: w.d, id: o.ActivityID, name: name, options: o, cancelling: make(chan struct{})}
	w.d.mu.Lock()
	w.d.scheduled[o.ActivityID] = t
	w.d.mu.Unlock()
	if in, ok := args[0].(activities.RoundInput); ok {
		t.mends = in.Integrating
		w.d.world.watch.scheduled(in.AssignmentID, t)
	}
	calm, _ := workflow.NewDisconnectedContext(ctx)
	inner := o
	inner.HeartbeatTimeout, inner.StartToCloseTimeout, inner.ScheduleToCloseTimeout = 0, forever, 0
	inner.RetryPolicy = &temporal.RetryPolicy{MaximumAttempts: 1}
	running := w.Next.ExecuteActivity(workflow.WithActivityOptions(calm, inner), name, args...)
	workflow.Go(calm, func(calm workflow.Context) {
		// The selector has the context's own channel, so a cancellation wakes it.
		workflow.NewSelector(calm).AddFuture(running, func(workflow.Future) {}).
			AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).Select(calm)
		if !running.IsReady() {
			t.cancel()
			if !o.WaitForCancellation {
				settle.SetError(temporal.NewCanceledError())
				return
			}
		}
		settle.Chain(running)
	})
	return future
}

func (t *task) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.cancelled {
		t.cancelled = true
		close(t.cancelling)
	}
}

// InterceptActivity delivers activities.
func (d *delivery) InterceptActivity(_ context.Context,
	next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &activityIn{interceptor.ActivityInboundInterceptorBase{Next: next}, d}
}

type activityIn struct {
	interceptor.ActivityInboundInterceptorBase
	d *delivery
}

func (a *activityIn) Init(out interceptor.ActivityOutboundInterceptor) error {
	return a.Next.Init(&activityOut{interceptor.ActivityOutboundInterceptorBase{Next: out}, a.d})
}

func (a *activityIn) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if info.ActivityType.Name == clockActivity {
		a.d.tick(in.Args[0].(time.Duration))
		return nil, nil
	}
	start := func(ctx context.Context) (any, error) { return a.Next.ExecuteActivity(ctx, copied(in)) }
	if info.IsLocalActivity {
		return a.d.local(ctx, info, start)
	}
	a.d.mu.Lock()
	t := a.d.scheduled[info.ActivityID]
	a.d.mu.Unlock()
	return a.d.deliver(ctx, t, start)
}

// copied is the input as each execution gets it: decoded anew.
func copied(in *interceptor.ExecuteActivityInput) *interceptor.ExecuteActivityInput {
	return &interceptor.ExecuteActivityInput{Args: in.Args}
}

// forever is longer than any session takes.
const forever = 1000 * 24 * time.Hour

// execute starts an execution in a process.
func (d *delivery) execute(ctx context.Context, t *task, p *process, attempt int32, limit time.Duration, local bool,
	start func(context.Context) (any, error),
) *execution {
	bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
	bounded, cancel := context.WithCancelCause(bounded)
	ex := &execution{
		task: t, p: p, attempt: attempt, local: local, cancel: cancel, beaten: time.Now(), done: make(chan outcome, 1),
		stopping: make(chan struct{}),
	}
	t.mu.Lock()
	t.current = ex
	t.mu.Unlock()
	d.world.note(p, "starts %s, attempt %d", t.id, attempt)
	if attempt == 60 && t.name == string(activities.MergeName) {
		d.world.watch.broke("liveness", "%s is executed again and again", t.id)
	}
	go ex.hearStop(bounded)
	go func() {
		defer stop()
		result, err := start(context.WithValue(bounded, executionKey{}, ex))
		if _, lost := call(p, "Complete", false, func() (any, error) { // the report of the end
			if d.world.away("temporal") {
				return nil, errAway
			}
			return nil, nil
		}); lost == nil {
			d.world.note(p, "ends %s, attempt %d: %v", t.id, attempt, err)
			ex.done <- outcome{result, err}
		}
	}()
	return ex
}

// local executes a local activity: in the process that has the workflow. If that dies,
// another begins anew.
func (d *delivery) local(ctx context.Context, info activity.Info, start func(context.Context) (any, error)) (any, error) {
	t := &task{delivery: d, id: "local " + info.ActivityType.Name, name: info.ActivityType.Name, cancelling: make(chan struct{})}
	limit := 5 * time.Second
	if until, ok := ctx.Deadline(); ok {
		limit = time.Until(until) - 20*time.Millisecond // the activity may notice it first
		// At the deadline itself, chance decides whether the SDK tries again.
		bounded, cancel := context.WithDeadlineCause(ctx, until.Add(-time.Millisecond),
			temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil))
		defer cancel()
		ctx = bounded
	}
	time.Sleep(d.world.moment("start "+t.id, int(info.Attempt)))
	for {
		p, err := d.world.worker(ctx, t.id, info.Attempt)
		if err != nil {
			return nil, err
		}
		ex := d.execute(ctx, t, p, info.Attempt, limit, true, start)
		select {
		case o := <-ex.done:
			return o.result, o.err
		case <-p.dead:
			d.world.sleep(ctx, time.Second) // a workflow task's timeout, but for the environment's limit
		case <-ctx.Done():
			d.abandon(ctx, ex)
			return nil, context.Cause(ctx)
		case <-d.closed:
			return nil, errAway
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// abandon tells a local activity that nobody waits for it. One of a process that is
// stopped hears of it when it continues.
func (d *delivery) abandon(ctx context.Context, ex *execution) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ex.cancel(context.Canceled)
	}
}

// deliver executes an activity until an execution of it has ended for good.
func (d *delivery) deliver(ctx context.Context, t *task, start func(context.Context) (any, error)) (any, error) {
	// Two that are scheduled at once start one after the other, in the same order each time.
	time.Sleep(d.world.moment("start "+t.id, 0))
	for attempt := int32(1); ; attempt++ {
		p, err := d.world.worker(ctx, t.id, attempt)
		if err != nil {
			return nil, err
		}
		ex := d.execute(ctx, t, p, attempt, t.options.StartToCloseTimeout, false, start)
		err = errLost
		if o, ended := d.await(t, ex); ended {
			if o.err == nil {
				return o.result, nil
			}
			err = o.err
		}
		if d.over() {
			return nil, errAway
		}
		wait, again := t.retries(err, attempt)
		if !again {
			return nil, err
		}
		if !d.pause(t, wait) {
			return nil, temporal.NewCanceledError()
		}
	}
}

// errLost: an execution has ended without a word.
var errLost = errors.New("lost (simulated)")

func (d *delivery) over() bool {
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}

// await waits for an execution's end, or until Temporal gives it up.
func (d *delivery) await(t *task, ex *execution) (outcome, bool) {
	started, twice := time.Now(), d.world.twice(t.name)
	for {
		wait := t.options.StartToCloseTimeout - time.Since(started)
		if limit := t.options.HeartbeatTimeout; limit > 0 {
			t.mu.Lock()
			wait = min(wait, limit-time.Since(ex.beaten))
			t.mu.Unlock()
		}
		if twice {
			wait = min(wait, 2*time.Second)
		}
		if wait <= 0 || twice && time.Since(started) >= 2*time.Second {
			t.mu.Lock()
			t.current = nil
			t.mu.Unlock()
			d.world.note(ex.p, "%s, attempt %d: superseded in Temporal", t.id, ex.attempt)
			return outcome{}, false
		}
		timer := time.NewTimer(wait)
		select {
		case o := <-ex.done:
			timer.Stop()
			t.mu.Lock()
			cancelled := t.cancelled
			t.mu.Unlock()
			if cancelled && errors.Is(o.err, context.Canceled) {
				o.err = temporal.NewCanceledError()
			}
			return o, true
		case <-d.closed:
			timer.Stop()
			return outcome{}, false
		case <-timer.C:
		}
	}
}

// pause waits before a retry; false if the activity was cancelled meanwhile.
func (d *delivery) pause(t *task, wait time.Duration) bool {
	timer := time.NewTimer(wait + d.world.moment("retry "+t.id, d.world.count("retry")))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.cancelling:
		return false
	case <-d.closed:
		return false
	}
}

// retries reports whether and when Temporal starts another execution after an error.
func (t *task) retries(err error, attempt int32) (time.Duration, bool) {
	policy := t.options.RetryPolicy
	if policy == nil {
		policy = &temporal.RetryPolicy{}
	}
	wait := policy.InitialInterval
	if wait == 0 {
		wait = time.Second
	}
	most := policy.MaximumInterval
	if most == 0 {
		most = 100 * wait
	}
	for range attempt - 1 {
		if wait = 2 * wait; wait > most {
			break
		}
	}
	wait = min(wait, most)
	var app *temporal.ApplicationError
	switch {
	case temporal.IsCanceledError(err):
		return 0, false
	case errors.As(err, &app) && app.NonRetryable():
		return 0, false
	case errors.As(err, &app) && app.NextRetryDelay() > 0:
		return app.NextRetryDelay(), true
	}
	return wait, true
}

// activityOut is what activities see of Temporal.
type activityOut struct {
	interceptor.ActivityOutboundInterceptorBase
	d *delivery
}

func (a *activityOut) GetInfo(ctx context.Context) activity.Info {
	info := a.Next.GetInfo(ctx)
	info.WorkflowExecution.RunID = a.d.run
	if ex := executionOf(ctx); ex != nil {
		info.Attempt = ex.attempt
		if !ex.local {
			info.ActivityID = ex.task.id
		}
	}
	return info
}

func (a *activityOut) GetLogger(ctx context.Context) log.Logger {
	if ex := executionOf(ctx); ex != nil {
		return logger{ex.p}
	}
	return a.Next.GetLogger(ctx)
}

func (a *activityOut) RecordHeartbeat(ctx context.Context, _ ...any) {
	ex := executionOf(ctx)
	if ex == nil {
		return
	}
	_ = act(ex.p, "Beat", func() error {
		if a.d.world.away("temporal") {
			return nil
		}
		err := ex.beat()
		if errors.Is(err, activities.ErrUnwanted) || errors.Is(err, activities.ErrReplaced) {
			ex.cancel(context.Canceled)
		}
		return err
	})
}

func (a *activityOut) GetWorkerStopChannel(ctx context.Context) <-chan struct{} {
	if ex := executionOf(ctx); ex != nil {
		return ex.stopping
	}
	return nil
}

// worker returns a process that can take an execution of work, waiting for one if need be.
func (w *world) worker(ctx context.Context, work string, attempt int32) (*process, error) {
	for {
		if p := w.choose(int(hash(w.plan.Seed, "slot "+work, int(attempt)) & 1)); p != nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if w.isOver() {
			runtime.Goexit()
		}
		time.Sleep(100 * time.Millisecond)
	}
}
