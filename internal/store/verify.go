package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Report is the result of a verification.
type Report struct {
	// The numbers of verified items.
	Sessions    int   `json:"sessions"`
	Checkpoints int   `json:"checkpoints"`
	Records     int   `json:"records"`
	Calls       int   `json:"calls"`
	Blobs       int   `json:"blobs"`
	Bytes       int64 `json:"bytes"`
	// Faults lists damaged and missing files once, sorted by path, and whether they were
	// repaired.
	Faults []cas.Fault `json:"faults"`
	// Replaced lists copies that belonged to checkpoints outside of the session's chain and were
	// replaced. This is no damage.
	Replaced []string `json:"replaced,omitempty"`
}

// VerifySession verifies everything that a session needs: its documents, and all blobs that these
// refer to, directly or through manifests. Damaged files are moved to the quarantine, and
// repaired if a second copy exists: a checkpoint's copy from its blob, and the blob from the
// copy. The error says only that the store cannot be used, or is [session.ErrNotFound] for an
// unknown session.
func (s *Store) VerifySession(ctx context.Context, key session.Key) (Report, error) {
	known, err := s.HasSession(key)
	if err != nil {
		return Report{}, err
	}
	if !known {
		return Report{}, &cas.Fault{Path: "sessions/" + key.Namespace + "/" + key.Session, What: "the store " + s.dir + " has no such session", Kind: session.ErrNotFound}
	}
	v := newVerification(s)
	v.repair = true
	if err := v.session(ctx, key); err != nil {
		return Report{}, err
	}
	return v.finish(ctx)
}

// VerifyAll verifies the whole store: every blob, and every session as VerifySession does.
func (s *Store) VerifyAll(ctx context.Context) (Report, error) {
	v := newVerification(s)
	v.repair = true
	if err := v.allBlobs(ctx); err != nil {
		return Report{}, err
	}
	keys, err := s.allSessions(ctx)
	if err != nil {
		return Report{}, err
	}
	for _, key := range keys {
		if err := v.session(ctx, key); err != nil {
			return Report{}, err
		}
	}
	if err := v.database(ctx); err != nil {
		return Report{}, err
	}
	if err := v.tickets(ctx); err != nil {
		return Report{}, err
	}
	if err := v.teams(ctx); err != nil {
		return Report{}, err
	}
	return v.finish(ctx)
}

// verification collects needed blobs and faults.
type verification struct {
	store  *Store
	report Report
	faults map[string]cas.Fault
	// needed has each blob to verify, and what needs it; empty: nothing needs it.
	needed map[spec.Digest]string
	// trees are the directories of trees, and the deltas, that were visited.
	trees map[spec.Digest]bool
	// without are checkpoints that are about to be pruned. Blobs that only they refer to are not
	// needed.
	without map[spec.Digest]bool
	// withoutTranscripts: transcripts of attempts and answers of calls are not needed.
	withoutTranscripts bool
	// repair: damaged files are repaired if a second copy exists.
	repair bool
}

func newVerification(s *Store) *verification {
	return &verification{store: s, faults: map[string]cas.Fault{}, needed: map[spec.Digest]string{}, trees: map[spec.Digest]bool{}}
}

// fault records the faults in an error and returns the rest of the error.
func (v *verification) fault(err error, neededBy string) error {
	faults, rest := faultsIn(err)
	for _, f := range faults {
		if _, ok := v.faults[f.Path]; !ok {
			v.faults[f.Path] = withNeed(f, neededBy)
		}
	}
	return rest
}

func (v *verification) need(name spec.Digest, by string) {
	if name != "" && v.needed[name] == "" {
		v.needed[name] = by
	}
}

// allBlobs records every blob, and files among them that are not blobs.
func (v *verification) allBlobs(ctx context.Context) error {
	err := v.store.docs.ListBlobs(ctx,
		func(name spec.Digest) { v.needed[name] = "" },
		func(key, what string) { v.faults[key] = cas.Fault{Path: key, What: what, Kind: session.ErrCorrupt} })
	if err != nil {
		return fmt.Errorf("list the blobs: %w", err)
	}
	return nil
}

// session verifies a session's documents and records the blobs that they need.
func (v *verification) session(ctx context.Context, key session.Key) error {
	v.report.Sessions++
	w, err := v.store.walk(ctx, key)
	if err != nil {
		return err
	}
	if err := v.fault(errors.Join(w.faults...), "session "+key.Session); err != nil {
		return err
	}
	if err := v.checkpoints(ctx, key, w); err != nil {
		return err
	}
	records, err := v.store.Records(ctx, key)
	if err := v.fault(err, ""); err != nil {
		return err
	}
	for _, r := range records {
		v.report.Records++
		if err := v.record(ctx, key, r); err != nil {
			return err
		}
	}
	if v.repair && len(w.faults) == 0 {
		if err := v.fault(v.store.rowsOf(ctx, key), ""); err != nil {
			return err
		}
	}
	return v.money(ctx, key)
}

func (v *verification) checkpoints(ctx context.Context, key session.Key, w *chainWalk) error {
	sorted := w.sorted(w.head)
	if len(sorted) > 0 {
		if err := v.state(ctx, key, sorted[0].Checkpoint); err != nil {
			return err
		}
	}
	newest := map[string]bool{}
	for i, c := range sorted {
		if v.without[c.Name] {
			continue
		}
		v.report.Checkpoints++
		by := "the checkpoint after " + c.CurrentPhase + " of session " + key.Session
		v.need(c.Name, by)
		// A fork's chain begins in another session.
		if c.Session == key.Session && !newest[c.CurrentPhase] {
			if err := v.copied(ctx, key, c, w); err != nil {
				return err
			}
			newest[c.CurrentPhase] = true
		}
		if err := v.checkpoint(ctx, c.Checkpoint, by); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		for _, a := range c.Assignments {
			if _, err := v.store.Record(key, a.AssignmentID); a.Status == session.Completed {
				if err := v.fault(err, by); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// copied verifies the copy of the newest checkpoint after a phase. If it is missing, it is
// written again from the blob.
func (v *verification) copied(ctx context.Context, key session.Key, c StoredCheckpoint, w *chainWalk) error {
	if _, ok := w.copies[c.Name]; ok {
		return nil
	}
	doc, err := copyKey(key, c.CurrentPhase)
	if err != nil {
		return err
	}
	missing := &cas.Fault{Path: doc, What: "the copy of checkpoint " + string(c.Name) + " is missing", Kind: session.ErrNotFound}
	if !v.repair {
		// The session may have continued since its copies were read.
		if data, _, err := v.store.docs.Read(doc); err == nil && (cas.DigestOf(data) == c.Name || !w.seen[cas.DigestOf(data)]) {
			return nil
		}
		return v.fault(missing, "")
	}
	state, err := v.store.repairCopy(ctx, key, c, doc, w)
	if err != nil { // the blob cannot be read, or the store not be written
		return v.fault(missing, "")
	}
	const how = "the copy was rewritten from the checkpoint's blob"
	f, known := v.faults[doc]
	switch {
	case known && f.Repaired == "" && state != copyInPlace:
		f.Repaired = how
		v.faults[doc] = f
	case state == copyWasMissing:
		return v.fault(repaired(missing, how), "")
	case state == copyWasOther:
		v.report.Replaced = append(v.report.Replaced, doc)
	}
	return nil
}

// copyState is what repairCopy found.
type copyState int

const (
	// copyInPlace: the copy was there, or that of a newer checkpoint.
	copyInPlace copyState = iota
	// copyWasMissing and copyWasOther: the copy was written again. Other means that it belonged
	// to a checkpoint outside of the session's chain.
	copyWasMissing
	copyWasOther
)

// repairCopy writes the copy of a checkpoint from its blob, unless the session has continued
// since the walk.
func (s *Store) repairCopy(ctx context.Context, key session.Key, c StoredCheckpoint, doc string, w *chainWalk) (state copyState, err error) {
	data, err := s.Content.Blob(ctx, c.Name)
	if err != nil {
		return copyInPlace, err
	}
	err = s.withLock(key, chainLock, func(storage.Locked) error {
		there, err := s.readCopy(key, c.CurrentPhase)
		switch {
		case missing(err):
			state = copyWasMissing
		case err != nil:
			return err
		case there.of == c.Name || !w.seen[there.of]:
			return nil
		default:
			state = copyWasOther
		}
		notes, _, err := s.notes(key)
		if err != nil {
			return err
		}
		if notes.names()[c.Name] { // pruned since the walk
			state = copyInPlace
			return nil
		}
		_, err = s.docs.Write(doc, data, there.version, storage.Durable)
		if errors.Is(err, storage.ErrConflict) { // the session has continued
			state, err = copyInPlace, nil
		}
		return err
	})
	return state, err
}

// state verifies a session's status document, and that the records of its attempts exist. A
// session whose admission was interrupted has no status document yet, and no work.
func (v *verification) state(ctx context.Context, key session.Key, newest session.Checkpoint) error {
	by := "session " + key.Session
	e, err := v.store.Execution(key)
	if errors.Is(err, session.ErrNotFound) && newest.CurrentPhase == spec.ReservedPhase && newest.Incarnation <= 1 {
		if worked, err := v.store.recorded(ctx, key); err != nil || len(worked) == 0 {
			return err
		}
	}
	if err != nil {
		return v.fault(err, by)
	}
	for _, p := range e.Phases {
		for _, a := range p.Assignments {
			// For a fork, the origin's attempts are recorded in the origin.
			if a.Attempts == 0 || e.Origin != nil || a.Status == session.Restored || a.Status == session.Supplied {
				continue
			}
			_, err := v.store.Record(key, spec.AssignmentID{Phase: p.Name, Persona: a.Persona})
			if err := v.fault(err, by); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *verification) checkpoint(ctx context.Context, c session.Checkpoint, by string) error {
	v.need(c.Team.Blob, by)
	for _, a := range c.Artifacts {
		v.need(a.SHA256, by)
	}
	var deltas []spec.Digest
	for _, a := range c.All() {
		deltas = append(deltas, a.Delta)
		for _, w := range a.Integrated {
			deltas = append(deltas, w.Delta)
		}
	}
	return v.contents(ctx, []spec.Digest{c.Workspace, c.Tree}, deltas, by)
}

func (v *verification) record(ctx context.Context, key session.Key, r session.Record) error {
	by := "the record of " + r.Assignment.String() + " of session " + key.Session
	if err := v.conversation(ctx, key, r.Conversation, by); err != nil {
		return err
	}
	for _, round := range r.Rounds {
		for _, log := range round.Logs() {
			if !v.withoutTranscripts {
				v.need(log, by)
			}
		}
		for _, attempt := range round.Attempts {
			if err := v.contents(ctx, []spec.Digest{attempt.Left}, nil, by); err != nil {
				return err
			}
		}
		if res := round.Result; res != nil {
			if err := v.contents(ctx, []spec.Digest{res.Input, res.Output}, []spec.Digest{res.Delta}, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// conversation records the blobs with which a conversation continues. A completed session does
// not need them.
func (v *verification) conversation(ctx context.Context, key session.Key, c *session.Conversation, by string) error {
	if session.HomeOf(c) == "" || v.withoutTranscripts {
		return nil
	}
	e, err := v.store.Execution(key)
	if err == nil && e.Status.Status == session.Completed {
		return nil
	}
	return v.contents(ctx, []spec.Digest{c.Home, c.Files}, nil, by+" for its conversation")
}

// contents records manifests, deltas and everything that they refer to.
func (v *verification) contents(ctx context.Context, manifests, deltas []spec.Digest, by string) error {
	for _, name := range manifests {
		if err := v.tree(ctx, name, by, false); err != nil {
			return err
		}
	}
	for _, name := range deltas {
		if name == "" || v.trees[name] {
			continue
		}
		v.trees[name] = true
		d, err := v.store.Content.Delta(ctx, name)
		if err := v.fault(err, by); err != nil {
			return err
		}
		v.need(name, by)
		for p, c := range d {
			v.need(c.SHA256, by+" for "+p)
		}
	}
	return nil
}

// tree records the blobs of a tree, and skips directories that were visited. With anywhere, the
// tree may be a subdirectory of another tree.
func (v *verification) tree(ctx context.Context, name spec.Digest, by string, anywhere bool) error {
	if name == "" {
		return nil
	}
	for n, err := range v.store.Content.TreeBlobs(ctx, name, v.trees, anywhere) {
		whose := by
		if n.Path != "" {
			whose += " for " + n.Path
		}
		if err := v.fault(err, whose); err != nil {
			return err
		}
		v.need(n.Blob, whose)
	}
	return nil
}

// finish verifies the recorded blobs and returns the report.
func (v *verification) finish(ctx context.Context) (Report, error) {
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cas.Workers())
	for name, by := range v.needed {
		g.Go(func() error {
			n, err := v.store.Content.CopyBlob(gctx, name, io.Discard)
			mu.Lock()
			defer mu.Unlock()
			v.report.Blobs++
			v.report.Bytes += n
			// A blob that is not needed may have been pruned since it was listed.
			if by == "" && errors.Is(err, session.ErrNotFound) {
				return nil
			}
			return v.fault(err, by)
		})
	}
	if err := g.Wait(); err != nil {
		return Report{}, err
	}
	v.report.Faults = make([]cas.Fault, 0, len(v.faults))
	for _, f := range v.faults {
		v.report.Faults = append(v.report.Faults, f)
	}
	slices.SortFunc(v.report.Faults, func(a, b cas.Fault) int { return strings.Compare(a.Path, b.Path) })
	return v.report, nil
}
