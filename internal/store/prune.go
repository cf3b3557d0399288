package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// The default limits of what a prune keeps.
const (
	DefaultKeep      = 10
	DefaultOlderThan = 7 * 24 * time.Hour

	// unlisted is how long after its last change a session counts as running although it is not
	// in Temporal's list.
	unlisted = time.Minute

	// youngBlob is the age below which a blob is never removed: a document that refers to it may
	// not be written yet.
	youngBlob = 24 * time.Hour
)

// ErrPruning says that another process is pruning the store.
var ErrPruning = errors.New("the store is being pruned already")

func withDefaults(o session.PruneOptions) session.PruneOptions {
	if o.Keep <= 0 {
		o.Keep = DefaultKeep
	}
	if o.OlderThan <= 0 {
		o.OlderThan = DefaultOlderThan
	}
	if o.Young <= 0 {
		o.Young = youngBlob
	}
	return o
}

// Prune removes working directories of ended sessions below o.WorkDirs, old checkpoints of closed
// sessions, and blobs that are not needed any more. A session has ended if the store says that it
// is closed, or if it belongs to o.Namespace and is not in o.Running.
//
// A blob is kept if it is referred to, directly or through manifests, by a kept checkpoint, by a
// record or call of any session, or by a registered team. It is also kept if it was stored or
// used later than a day before the start of the oldest session that is not closed, if it is
// younger than a day, or if such a blob refers to it.
//
// Sessions may run in any process during a prune. A store with a fault is not pruned, because the
// blobs that a damaged document needs are unknown. If another process is pruning, the error is
// [ErrPruning].
func (s *Store) Prune(ctx context.Context, o session.PruneOptions) (session.PruneReport, error) {
	held, ok, err := s.docs.Hold(".prune") // no other key begins with a dot
	if err != nil {
		return session.PruneReport{}, fmt.Errorf("prune: %w", err)
	}
	if !ok {
		return session.PruneReport{}, ErrPruning
	}
	defer held.Unlock()
	o = withDefaults(o)
	p := &pruning{
		store: s, options: o, marks: newVerification(s), horizon: s.now().Add(-o.Young), listed: s.now(),
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
	listed  time.Time
	keys    []session.Key
	dropped map[session.Key][]StoredCheckpoint
	// ended are ended sessions, whose working directories can be removed.
	ended []session.Key
}

// plan decides which checkpoints are removed.
func (p *pruning) plan(ctx context.Context) (err error) {
	if p.keys, err = p.store.allSessions(ctx); err != nil {
		return err
	}
	p.dropped = map[session.Key][]StoredCheckpoint{}
	p.marks.without = map[spec.Digest]bool{}
	for key, since := range p.options.Running {
		if !slices.Contains(p.keys, key) {
			p.keepAll(key, "it waits for admission", since)
		}
	}
	for _, key := range p.keys {
		p.report.Sessions++
		if err := p.planSession(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (p *pruning) planSession(ctx context.Context, key session.Key) error {
	chain, err := p.store.Checkpoints(ctx, key)
	if err != nil {
		return p.refuse(err)
	}
	e, err := p.store.Execution(key)
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return p.refuse(err)
	}
	if p.hasEnded(key, e) {
		p.ended = append(p.ended, key)
	}
	since, runs := p.options.Running[key]
	if e.StartedAt != nil && (since.IsZero() || e.StartedAt.Before(since)) {
		since = *e.StartedAt
	}
	if since.IsZero() && len(chain) > 0 {
		since = chain[len(chain)-1].CreatedAt
	}
	switch {
	case p.options.Namespace != "" && key.Namespace != p.options.Namespace && e.Status.Status.Closed():
	case runs:
		p.keepAll(key, "Temporal runs it", since)
	case e.Status.Status == "":
		p.keepAll(key, "its state is not known", since)
	case !e.Status.Status.Closed():
		p.keepAll(key, fmt.Sprintf("it is %s according to the store", e.Status.Status), since)
	default:
		return p.planClosed(key, e, chain)
	}
	p.report.Kept += len(chain)
	return nil
}

// hasEnded reports whether a session has ended: the store says so, or Temporal does not run it.
func (p *pruning) hasEnded(key session.Key, e session.Execution) bool {
	if _, runs := p.options.Running[key]; runs {
		return false
	}
	asked := p.options.Namespace != "" && p.options.Namespace == key.Namespace
	return e.Status.Status.Closed() || asked && e.UpdatedAt.Before(p.listed.Add(-unlisted))
}

// keepAll keeps everything of a session, and all blobs stored since before it began, because only
// Temporal may know which of them it uses.
func (p *pruning) keepAll(key session.Key, reason string, since time.Time) {
	p.report.Spared = append(p.report.Spared, session.SparedSession{Key: key, Reason: reason})
	if before := since.Add(-p.options.Young); before.Before(p.horizon) {
		p.horizon = before
	}
}

func (p *pruning) planClosed(key session.Key, e session.Execution, chain []StoredCheckpoint) error {
	limit := p.store.now().Add(-p.options.OlderThan)
	gone := session.PrunedSession{Key: key}
	for i, c := range chain {
		stays := i < p.options.Keep || c.Session != key.Session || c.Name == e.Checkpoint || !c.CreatedAt.Before(limit)
		if !stays {
			// A checkpoint that was read recently may be about to be used.
			young, err := p.isYoung(c.Name)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			stays = young
		}
		if stays {
			p.report.Kept++
			continue
		}
		p.dropped[key] = append(p.dropped[key], c)
		p.marks.without[c.Name] = true
		gone.Checkpoints = append(gone.Checkpoints, c.Name)
	}
	if len(gone.Checkpoints) > 0 {
		p.report.Pruned = append(p.report.Pruned, gone)
		p.report.Checkpoints += len(gone.Checkpoints)
	}
	return nil
}

// refuse converts faults into the error that says why the store is not pruned.
func (p *pruning) refuse(err error) error {
	if faults, rest := faultsIn(err); rest == nil && len(faults) > 0 {
		return fmt.Errorf("a damaged store is not pruned, because the blobs that the damaged file needs are unknown; "+
			"restore the file from a backup, or move the directory of its session away: %w", err)
	}
	return err
}

// drop records the removed checkpoints, and removes their copies.
func (p *pruning) drop(ctx context.Context) error {
	if p.options.DryRun {
		return nil
	}
	for _, key := range p.keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		if dropped := p.dropped[key]; len(dropped) > 0 {
			if err := p.store.dropCheckpoints(key, dropped); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes working directories of ended sessions. It runs first, because they may have
// filled the disk.
func (p *pruning) clear(ctx context.Context) error {
	if p.options.WorkDirs == nil {
		return nil
	}
	if !p.options.DryRun {
		if err := p.options.WorkDirs.RemoveAbandoned(); err != nil {
			return err
		}
	}
	for _, key := range p.ended {
		if err := ctx.Err(); err != nil {
			return err
		}
		ids, err := p.options.WorkDirs.Assignments(key)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		gone := true
		if err == nil && !p.options.DryRun {
			gone, err = p.clearWork(key, ids)
		}
		if err != nil {
			return err
		}
		if gone {
			p.report.WorkDirs++
		}
	}
	return nil
}

// clearWork removes a session's working directories unless one of its assignments is running: the
// session may just have been resumed.
func (p *pruning) clearWork(key session.Key, ids []spec.AssignmentID) (bool, error) {
	for _, id := range ids {
		held, ok, err := p.store.Lock(key, id)
		if err != nil || !ok {
			return false, err
		}
		defer held.Unlock()
	}
	e, err := p.store.Execution(key)
	if err != nil && !errors.Is(err, session.ErrNotFound) || !p.hasEnded(key, e) {
		return false, p.refuse(err)
	}
	return true, p.options.WorkDirs.Remove(key)
}
