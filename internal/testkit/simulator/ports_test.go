package simulator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// files, workDirs, sessions and database are the real store, as a process reaches it. What is not
// here goes to the store directly.

type files struct {
	*cas.Store
	p *process
}

func (f files) PutBlob(ctx context.Context, data []byte) (spec.Digest, error) {
	return call(f.p, "PutBlob", false, func() (spec.Digest, error) { return f.Store.PutBlob(ctx, data) })
}

func (f files) Blob(ctx context.Context, name spec.Digest) ([]byte, error) {
	return call(f.p, "Blob", false, func() ([]byte, error) { return f.Store.Blob(ctx, name) })
}

func (f files) Held(ctx context.Context, m spec.Digest, paths []string) ([]string, error) {
	return call(f.p, "Held", false, func() ([]string, error) { return f.Store.Held(ctx, m, paths) })
}

func (f files) List(ctx context.Context, m spec.Digest, most int) (session.Listing, error) {
	return call(f.p, "List", false, func() (session.Listing, error) { return f.Store.List(ctx, m, most) })
}

func (f files) Changed(ctx context.Context, input, tree spec.Digest) ([]string, error) {
	return call(f.p, "Changed", false, func() ([]string, error) { return f.Store.Changed(ctx, input, tree) })
}

func (f files) UnifiedDiff(ctx context.Context, from, to spec.Digest, limit int) (string, error) {
	return call(f.p, "UnifiedDiff", false, func() (string, error) { return f.Store.UnifiedDiff(ctx, from, to, limit) })
}

func (f files) Materialise(ctx context.Context, m spec.Digest, dir string) error {
	return act(f.p, "Materialise", func() error { return f.Store.Materialise(ctx, m, dir) })
}

func (f files) Collect(ctx context.Context, req session.Collect) (session.Collected, error) {
	return call(f.p, "Collect", false, func() (session.Collected, error) { return f.Store.Collect(ctx, req) })
}

func (f files) Fold(ctx context.Context, base spec.Digest, steps []session.Step) (session.Folded, error) {
	return call(f.p, "Fold", false, func() (session.Folded, error) { return f.Store.Fold(ctx, base, steps) })
}

// calls are a job's paid calls; a call that can never be paid must not wait.
type calls struct {
	session.Calls
	p  *process
	id spec.AssignmentID
}

func (c calls) Begin(ctx context.Context, plan session.CallPlan) (session.Call, error) {
	budgets := c.p.world.budgets(c.id)
	began := time.Now()
	begun, err := c.Calls.Begin(ctx, plan)
	waited := time.Since(began) > 3*time.Second && !c.p.wasFrozen(began)
	for _, b := range budgets {
		if waited && b.Cap.Tokens > 0 && b.Held().Tokens+plan.Least.Tokens > b.Cap.Tokens {
			c.p.world.watch.broke("P4", "%s: a call that can never be paid has waited %s", c.id, time.Since(began))
		}
	}
	if err != nil {
		return nil, err
	}
	c.p.world.watch.grants(c.id, begun.Granted())
	return begun, nil
}

type sessions struct {
	*store.Store
	p *process
}

type workDirs struct {
	*workdir.Dirs
	p *process
}

func (w workDirs) Make(key session.Key, id spec.AssignmentID) (session.WorkDir, error) {
	return call(w.p, "WorkDir", false, func() (session.WorkDir, error) { return w.Dirs.Make(key, id) })
}

// acquire is a [workdir.Acquire]. Each process has layers of its own, as if the host had been
// started again before it: what a killed process has laid out is laid out again.
func (p *process) acquire(ctx context.Context, manifest spec.Digest, _ ...spec.Digest) (dirs []string, release func(),
	err error,
) {
	dir, err := call(p, "Acquire", false, func() (string, error) {
		root := filepath.Join(p.world.dir, "layers", strconv.Itoa(p.id))
		dir := filepath.Join(root, string(manifest))
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
		next := fmt.Sprintf("%s.%d", dir, p.world.count("layer"))
		if err := os.MkdirAll(next, 0o700); err != nil {
			return "", err
		}
		if err := p.store.Content.Materialise(ctx, manifest, next); err != nil {
			return "", err
		}
		if err := os.Rename(next, dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		return dir, nil
	})
	return []string{dir}, func() {}, err
}

func (s sessions) Lock(ctx context.Context, key session.Key, id spec.AssignmentID) (session.Lock, bool, error) {
	ok := false
	l, err := call(s.p, "Lock", false, func() (l session.Lock, err error) {
		var inner session.Lock
		if inner, ok, err = s.Store.Lock(ctx, key, id); err != nil || !ok {
			return nil, err
		}
		s.p.world.held(id)
		held := &lock{inner, s.p}
		s.p.mu.Lock()
		defer s.p.mu.Unlock()
		s.p.locks[held] = true
		return held, nil
	})
	if err == nil && !ok { // those that wait for a lock are killed, too
		s.p.world.waited(id)
		_, err = call(s.p, "Lock.wait", false, func() (any, error) { return nil, nil })
	}
	return l, ok, err
}

func (s sessions) StoreCheckpoint(ctx context.Context, key session.Key, c session.Checkpoint) (state.Checkpoint, error) {
	return call(s.p, "StoreCheckpoint", false, func() (state.Checkpoint, error) { return s.Store.StoreCheckpoint(ctx, key, c) })
}

func (s sessions) Mirror(ctx context.Context, key session.Key) error {
	return act(s.p, "Mirror", func() error { return s.Store.Mirror(ctx, key) })
}

func (s sessions) Checkpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	return call(s.p, "Checkpoint", false, func() (session.Checkpoint, error) { return s.Store.Checkpoint(ctx, name) })
}

// database is the real database, as a process reaches it. It embeds nothing: each method has to say what faults it has.
type database struct {
	State activities.State
	p     *process
}

// Offers says that two workers offer all agents and the checks.
func (d database) Offers(context.Context) ([]spec.Offer, error) {
	return call(d.p, "Offers", false, func() ([]spec.Offer, error) {
		o := spec.Offer{
			Worker: "w", Identity: "w", RenewedAt: time.Now(), StartedAt: time.Now(),
			Agents: map[string]spec.OfferedAgent{}, Checks: map[string]spec.Digest{"check": "c", "merged": "m"},
		}
		for _, name := range []string{"a0", "a1"} {
			o.Agents[name] = d.p.world.offered(name)
		}
		return []spec.Offer{o}, nil
	})
}

func (d database) Admit(ctx context.Context, a state.Admission) (int64, error) {
	return call(d.p, "Admit", false, func() (int64, error) { return d.State.Admit(ctx, a) })
}

func (d database) Enter(ctx context.Context, s session.Key, run string) (int64, error) {
	return call(d.p, "Enter", false, func() (int64, error) { return d.State.Enter(ctx, s, run) })
}

func (d database) IsFenced(ctx context.Context, s session.Key, run string) (bool, error) {
	return call(d.p, "IsFenced", false, func() (bool, error) { return d.State.IsFenced(ctx, s, run) })
}

func (d database) Execution(ctx context.Context, s session.Key) (session.Execution, error) {
	return call(d.p, "Execution", false, func() (session.Execution, error) { return d.State.Execution(ctx, s) })
}

func (d database) PutBoundary(ctx context.Context, b state.Boundary) (opened []session.Request, late bool, err error) {
	err = act(d.p, "PutBoundary", func() (err error) {
		opened, late, err = d.State.PutBoundary(ctx, b)
		return err
	})
	return opened, late, err
}

func (d database) Records(ctx context.Context, s session.Key) ([]session.Record, error) {
	return call(d.p, "Records", false, func() ([]session.Record, error) { return d.State.Records(ctx, s) })
}

func (d database) OpenRound(ctx context.Context, o state.RoundOrder) (state.OpenedRound, error) {
	return call(d.p, "OpenRound", false, func() (state.OpenedRound, error) { return d.State.OpenRound(ctx, o) })
}

func (d database) PutRound(ctx context.Context, f state.Fence, a state.Assignment, r session.RoundRecord,
	c *session.Conversation,
) error {
	_, err := call(d.p, "PutRound", true, func() (any, error) {
		err := d.State.PutRound(ctx, f, a, r, c)
		if err == nil {
			d.p.world.recorded(ctx, d.p, a.AssignmentID, r)
		}
		return nil, err
	})
	return err
}

func (d database) EndWork(ctx context.Context, holder string, a state.Assignment, pass, round int) error {
	return act(d.p, "EndWork", func() error { return d.State.EndWork(ctx, holder, a, pass, round) })
}

func (d database) DropRound(ctx context.Context, f state.Fence, a state.Assignment, pass, round int) error {
	return act(d.p, "DropRound", func() error { return d.State.DropRound(ctx, f, a, pass, round) })
}

func (d database) Undo(ctx context.Context, s session.Key, run string, ids []spec.AssignmentID) error {
	return act(d.p, "Undo", func() error { return d.State.Undo(ctx, s, run, ids) })
}

func (d database) Merge(ctx context.Context, s session.Key, phase, run, activity string, change func(*session.MergeLog)) error {
	return act(d.p, "Merge", func() error { return d.State.Merge(ctx, s, phase, run, activity, change) })
}

func (d database) Begin(ctx context.Context, n state.NewCall) (budget.Verdict, error) {
	return call(d.p, "Begin", false, func() (budget.Verdict, error) {
		v, err := d.State.Begin(ctx, n)
		d.p.world.withinCaps(n.Assignment)
		return v, err
	})
}

func (d database) Report(ctx context.Context, id string, p state.Progress) (held cost.Amount, refused *budget.Budget, err error) {
	err = act(d.p, "Report", func() (err error) {
		held, refused, err = d.State.Report(ctx, id, p)
		return err
	})
	return held, refused, err
}

func (d database) End(ctx context.Context, id string, end state.CallEnd) error {
	return act(d.p, "End", func() error {
		err := d.State.End(ctx, id, end)
		if err == nil && end.State == state.CallAnswered {
			d.p.world.watch.advances(d.p.world.assignmentOf(id))
		}
		return err
	})
}

func (d database) KeepTools(ctx context.Context, id, tools string) error {
	return act(d.p, "KeepTools", func() error { return d.State.KeepTools(ctx, id, tools) })
}

func (d database) PaidAnswer(ctx context.Context, attempts []state.AttemptKey, from int64, request string,
	received map[string]bool,
) (state.Call, error) {
	return call(d.p, "PaidAnswer", true,
		func() (state.Call, error) { return d.State.PaidAnswer(ctx, attempts, from, request, received) })
}

func (d database) Calls(ctx context.Context, a state.Assignment) ([]state.Call, error) {
	return call(d.p, "Calls", false, func() ([]state.Call, error) { return d.State.Calls(ctx, a) })
}

func (d database) UnfinishedCalls(ctx context.Context, a state.Assignment) ([]state.Call, error) {
	return call(d.p, "Open", false, func() ([]state.Call, error) { return d.State.UnfinishedCalls(ctx, a) })
}

func (d database) Costs(ctx context.Context, s session.Key, by ...string) ([]state.Cost, error) {
	return call(d.p, "Costs", false, func() ([]state.Cost, error) { return d.State.Costs(ctx, s, by...) })
}

func (d database) Budgets(ctx context.Context, a state.Assignment, team string) ([]budget.Budget, error) {
	return call(d.p, "Budgets", false, func() ([]budget.Budget, error) { return d.State.Budgets(ctx, a, team) })
}

func (d database) Warn(ctx context.Context, a state.Assignment, team string, at []float64) (due []budget.Warning,
	budgets []budget.Budget, err error,
) {
	err = act(d.p, "Warn", func() (err error) {
		due, budgets, err = d.State.Warn(ctx, a, team, at)
		return err
	})
	return due, budgets, err
}

func (d database) UnsettledOf(ctx context.Context, s session.Key, b budget.Budget) (budget.UnsettledCalls, error) {
	return call(d.p, "UnsettledOf", false, func() (budget.UnsettledCalls, error) { return d.State.UnsettledOf(ctx, s, b) })
}

func (d database) AddRaise(ctx context.Context, s session.Key, r budget.Raise, via string) (*budget.Budget, error) {
	return call(d.p, "AddRaise", false, func() (*budget.Budget, error) { return d.State.AddRaise(ctx, s, r, via) })
}

func act(p *process, op string, effect func() error) error {
	_, err := call(p, op, false, func() (any, error) { return nil, effect() })
	return err
}

// heartbeats reports to the simulated Temporal.
type heartbeats struct{ p *process }

func (h heartbeats) Beat(ctx context.Context, _ activities.Heartbeat) error {
	return act(h.p, "Beat", func() error {
		if h.p.world.away("temporal") {
			return errAway
		}
		return executionOf(ctx).beat()
	})
}
