package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// The default limits of what a prune keeps.
const (
	DefaultKeep      = 10
	DefaultOlderThan = 7 * 24 * time.Hour

	// unlisted is how long after its last change a session counts as running although it is not
	// in Temporal's list.
	unlisted = time.Minute

	// youngBlob is the age below which a blob is never removed: a row that names it may
	// not be written yet.
	youngBlob = 24 * time.Hour
)

// ErrPruning says that another process is pruning the store, or backs it up.
var ErrPruning = errors.New("the store is being pruned or backed up already")

// HoldBlobs excludes prunes and backups by others. The error is [ErrPruning] while there is one.
func (s *Store) HoldBlobs() (*storage.Hold, error) {
	held, ok, err := s.files.Hold(".prune") // no other key begins with a dot
	if err == nil && !ok {
		err = ErrPruning
	}
	return held, err
}

// Prune removes working directories of ended sessions below o.WorkDirs, old checkpoints of closed
// sessions, and blobs that are not needed any more. A session has ended if its status says that it
// is closed, or if it belongs to o.Namespace and is not in o.Running.
//
// A blob is kept if a row names it, or anything below what rows name. It is also kept if it was stored or
// used later than a day before the start of the oldest session that is not closed, if it is
// younger than a day, or if such a blob refers to it.
//
// Sessions may run in any process during a prune. A store with a fault is not pruned, because the
// blobs that a damaged blob needs are unknown. If another process is pruning, the error is
// [ErrPruning].
func (s *Store) Prune(ctx context.Context, o session.PruneOptions) (session.PruneReport, error) {
	held, err := s.HoldBlobs()
	if err != nil {
		return session.PruneReport{}, fmt.Errorf("prune: %w", err)
	}
	defer held.Unlock()
	o.Keep, o.OlderThan, o.Young = cmp.Or(o.Keep, DefaultKeep), cmp.Or(o.OlderThan, DefaultOlderThan), cmp.Or(o.Young, youngBlob)
	now, err := s.blobs.Now(ctx)
	if err != nil {
		return session.PruneReport{}, fmt.Errorf("prune: %w", err)
	}
	p := &pruning{
		store: s, options: o, marks: newVerification(s), horizon: now.Add(-o.Young), listed: s.now(),
		report: session.PruneReport{DryRun: o.DryRun, Pruned: []session.PrunedSession{}, Spared: []session.SparedSession{}},
	}
	for _, step := range []func(context.Context) error{p.plan, p.clear, p.mark, p.drop, p.sweep} {
		if err := step(ctx); err != nil {
			return p.report, fmt.Errorf("prune: %w", err)
		}
	}
	return p.report, nil
}

// pruning is a running prune.
type pruning struct {
	store   *Store
	options session.PruneOptions
	report  session.PruneReport
	// marks records which blobs are needed.
	marks *verification
	// horizon: blobs that were stored or used since then are kept.
	horizon time.Time
	// listed is when the running sessions were listed, or somewhat later.
	listed   time.Time
	sessions []state.Standing
	dropped  []state.Checkpoint
}

// plan decides which checkpoints are removed.
func (p *pruning) plan(ctx context.Context) (err error) {
	if p.sessions, err = p.store.State.Standings(ctx); err != nil {
		return err
	}
	for key, since := range p.options.Running {
		if !slices.ContainsFunc(p.sessions, func(one state.Standing) bool { return one.Key == key }) {
			p.keepAll(key, "it waits for admission", since)
		}
	}
	for _, one := range p.sessions {
		p.report.Sessions++
		rows, err := p.store.State.Checkpoints(ctx, one.Key)
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(c state.Checkpoint) bool { return c.PrunedAt.Valid })
		p.report.Kept += len(rows)
		since := time.UnixMicro(one.StartedAt)
		began, runs := p.options.Running[one.Key]
		if runs && began.Before(since) {
			since = began
		}
		switch {
		case p.options.Namespace != "" && one.Namespace != p.options.Namespace && one.Status.Closed():
		case runs:
			p.keepAll(one.Key, "Temporal runs it", since)
		case one.Revision == 0:
			p.keepAll(one.Key, "its state is not known", since)
		case !one.Status.Closed():
			p.keepAll(one.Key, fmt.Sprintf("it is %s according to the store", one.Status), since)
		default:
			if err := p.planClosed(ctx, one.Key, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasEnded reports whether a session has ended: its status says so, or Temporal does not run it.
func (p *pruning) hasEnded(one state.Standing) bool {
	if _, runs := p.options.Running[one.Key]; runs {
		return false
	}
	asked := p.options.Namespace != "" && p.options.Namespace == one.Namespace
	return one.Revision > 0 && one.Status.Closed() || asked && time.UnixMicro(one.UpdatedAt).Before(p.listed.Add(-unlisted))
}

// keepAll keeps everything of a session, and all blobs stored since before it began, because only
// Temporal may know which of them it uses.
func (p *pruning) keepAll(key session.Key, reason string, since time.Time) {
	p.report.Spared = append(p.report.Spared, session.SparedSession{Key: key, Reason: reason})
	if before := since.Add(-p.options.Young); before.Before(p.horizon) {
		p.horizon = before
	}
}

// planClosed decides which checkpoints of a closed session are removed. rows are those that are kept, newest first.
func (p *pruning) planClosed(ctx context.Context, key session.Key, rows []state.Checkpoint) error {
	limit := p.store.now().Add(-p.options.OlderThan).UnixMicro()
	gone := session.PrunedSession{Key: key}
	for _, c := range rows[min(p.options.Keep, len(rows)):] {
		if c.BoundaryAt >= limit {
			continue
		}
		// A checkpoint that was read recently may be about to be used.
		young, err := p.isYoung(ctx, c.Digest)
		if err != nil {
			return err
		}
		if young {
			continue
		}
		p.dropped = append(p.dropped, c)
		p.marks.without[c.Digest] = true
		gone.Checkpoints = append(gone.Checkpoints, c.Digest)
	}
	if len(gone.Checkpoints) > 0 {
		p.report.Pruned = append(p.report.Pruned, gone)
		p.report.Checkpoints += len(gone.Checkpoints)
		p.report.Kept -= len(gone.Checkpoints)
	}
	return nil
}

// refuse converts faults into the error that says why the store is not pruned.
func (p *pruning) refuse(err error) error {
	if faults, rest := faultsIn(err); rest == nil && len(faults) > 0 {
		return fmt.Errorf("a damaged store is not pruned, because the blobs that the damaged file needs are unknown; "+
			"restore the file from a backup: %w", err)
	}
	return err
}

// drop marks checkpoints as pruned, and removes their files from the mirror.
func (p *pruning) drop(ctx context.Context) error {
	if p.options.DryRun {
		return nil
	}
	if err := p.store.State.SetPruned(ctx, p.dropped); err != nil {
		return err
	}
	for _, one := range p.report.Pruned {
		if _, err := p.store.updateMirror(ctx, one.Key, true); exceptBusy(err) != nil { // the next verification removes them
			return err
		}
	}
	return nil
}

// clear removes working directories of ended sessions. It runs first, because they may have
// filled the disk.
func (p *pruning) clear(ctx context.Context) error {
	for _, one := range p.sessions {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !p.hasEnded(one) {
			continue
		}
		cleared := false
		for _, dirs := range p.options.WorkDirs {
			ids, err := dirs.Assignments(one.Key)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			gone := true
			if err == nil && !p.options.DryRun {
				gone, err = p.clearWork(ctx, dirs, one.Key, ids)
			}
			if err != nil {
				return err
			}
			cleared = cleared || gone
		}
		if cleared {
			p.report.WorkDirs++
		}
	}
	return nil
}

// clearWork removes a session's working directories unless one of its assignments is running: the
// session may just have been resumed.
func (p *pruning) clearWork(ctx context.Context, dirs session.PrunableDirs, key session.Key, ids []spec.AssignmentID) (bool,
	error,
) {
	for _, id := range ids {
		held, ok, err := p.store.Lock(ctx, key, id)
		if err != nil || !ok {
			return false, err
		}
		defer held.Unlock()
	}
	one, err := p.store.State.Standing(ctx, key)
	if err != nil || !p.hasEnded(one) {
		return false, err
	}
	return true, dirs.Remove(key)
}
