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

// The defaults of what a prune keeps.
const (
	DefaultKeep      = 10
	DefaultOlderThan = 7 * 24 * time.Hour

	// unlisted is how long after its last change a session may be at work that is not
	// among those that Temporal was said to run.
	unlisted = time.Minute

	// youngBlob is the age below which a blob is never removed: it may have been
	// stored for something that is yet to be written.
	youngBlob = 24 * time.Hour
)

// ErrPruning says that another process prunes the store at the moment.
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

// Prune removes the directories of o.WorkDirs that sessions worked in which have ended, old checkpoints
// of closed sessions, and the blobs that nothing needs any more. Ended is what is closed
// by what the store knows, and what o.Running lacks of o.Namespace.
//
// Never removed is a blob that a kept checkpoint, a record or a journal of any
// session names, directly or through manifests, or a registered team; one that was stored or used since a day
// before the oldest session that is not closed began; nor one younger than a day,
// nor what such a one names. Sessions may run, and work be collected, meanwhile,
// by any process. A store with a fault is not pruned: what a damaged document
// needs is not known. While another process prunes, the error is [ErrPruning].
func (s *Store) Prune(ctx context.Context, o session.PruneOptions) (session.PruneReport, error) {
	held, ok, err := s.docs.Hold(".prune") // no namespace begins with a dot
	if err != nil {
		return session.PruneReport{}, fmt.Errorf("prune: %w", err)
	}
	if !ok {
		return session.PruneReport{}, ErrPruning
	}
	defer held.Unlock()
	o = withDefaults(o)
	p := &pruning{
		store: s, options: o, marks: newVerification(s), horizon: s.now().Add(-o.Young),
		report: session.PruneReport{DryRun: o.DryRun, Pruned: []session.PrunedSession{}, Spared: []session.SparedSession{}},
	}
	for _, step := range []func(context.Context) error{p.plan, p.clear, p.days, p.mark, p.drop, p.sweep} {
		if err := step(ctx); err != nil {
			return p.report, fmt.Errorf("prune: %w", err)
		}
	}
	return p.report, nil
}

// pruning is one prune under way.
type pruning struct {
	store   *Store
	options session.PruneOptions
	report  session.PruneReport
	// marks knows what is needed.
	marks *verification
	// horizon is the time since which a blob was stored or used that stays.
	horizon time.Time
	keys    []session.Key
	dropped map[session.Key][]StoredCheckpoint
	// ended are sessions that have ended: what they worked in is not needed.
	ended []session.Key
}

// plan decides which checkpoints go.
func (p *pruning) plan(ctx context.Context) (err error) {
	if p.keys, err = p.store.allSessions(ctx); err != nil {
		return err
	}
	p.dropped = map[session.Key][]StoredCheckpoint{}
	p.marks.without = map[spec.Digest]bool{}
	for key, since := range p.options.Running {
		if !slices.Contains(p.keys, key) {
			p.spare(key, "it waits for admission", since)
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
		p.spare(key, "Temporal runs it", since)
	case e.Status.Status == "":
		p.spare(key, "its state is not known", since)
	case !e.Status.Status.Closed():
		p.spare(key, fmt.Sprintf("it is %s according to the store", e.Status.Status), since)
	default:
		return p.planClosed(key, e, chain)
	}
	p.report.Kept += len(chain)
	return nil
}

// hasEnded reports whether a session has ended, by what the store knows, or because
// Temporal does not run it.
func (p *pruning) hasEnded(key session.Key, e session.Execution) bool {
	if _, runs := p.options.Running[key]; runs {
		return false
	}
	asked := p.options.Namespace != "" && p.options.Namespace == key.Namespace
	return e.Status.Status.Closed() || asked && e.UpdatedAt.Before(p.store.now().Add(-unlisted))
}

// spare lets a session keep everything, and all that was stored since before it
// began: what it uses at the moment may be known to Temporal only.
func (p *pruning) spare(key session.Key, reason string, since time.Time) {
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
			// One that was read a moment ago is about to be built on.
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

// refuse turns faults into a refusal.
func (p *pruning) refuse(err error) error {
	if faults, rest := faultsIn(err); rest == nil && len(faults) > 0 {
		return fmt.Errorf("a damaged store is not pruned, because the blobs that the damaged file needs are unknown; "+
			"restore the file from a backup, or move the directory of its session away: %w", err)
	}
	return err
}

// drop notes the checkpoints that go, and removes their copies. The blob and the copy of
// one stay while a checkpoint that stays has it as a part.
func (p *pruning) drop(ctx context.Context) error {
	if p.options.DryRun {
		return nil
	}
	for _, key := range p.keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		if dropped := p.dropped[key]; len(dropped) > 0 {
			if err := p.store.dropCheckpoints(key, dropped, p.marks.needed); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes the directories that sessions worked in which have ended. It goes first:
// the disk may be full of them.
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

// clearWork removes a session's working directories unless an assignment of it
// is worked on: the session may have been resumed a moment ago.
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
