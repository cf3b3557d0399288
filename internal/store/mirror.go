package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

const (
	checkpointPrefix = "checkpoint_"
	executionFile    = "execution_state.json"
)

// mirrorDir is the key of the directory of a session's mirror.
func mirrorDir(key session.Key) string { return path.Join("sessions", key.Namespace, key.Session) }

// MirrorDir returns the directory of a session's mirror, for messages.
func (s *Store) MirrorDir(key session.Key) string { return path.Join(s.Dir(), mirrorDir(key)) }

// mirrorFile is the key of the file with the newest checkpoint after a phase.
func mirrorFile(key session.Key, phase string) string {
	return mirrorDir(key) + "/" + checkpointPrefix + phase + ".json"
}

// CheckpointPath returns the path of a phase's checkpoint in the mirror, for messages.
func (s *Store) CheckpointPath(key session.Key, phase string) (string, error) {
	return path.Join(s.Dir(), mirrorFile(key, phase)), errors.Join(key.Check(), spec.CheckName(phase))
}

// Mirror writes the status and the checkpoints of a session that its mirror lacks. While another process does that, it returns at
// once: that process writes them, or else the next boundary or start of a worker.
func (s *Store) Mirror(ctx context.Context, key session.Key) error {
	_, err := s.updateMirror(ctx, key, false)
	return exceptBusy(err)
}

// exceptBusy is nil if another process writes a mirror.
func exceptBusy(err error) error {
	if errors.Is(err, errMirrorBusy) {
		return nil
	}
	return err
}

// MirrorAll is Mirror for all sessions whose mirror lacks a checkpoint, because a process has ended before it wrote it.
func (s *Store) MirrorAll(ctx context.Context) error {
	keys, err := s.State.ToMirror(ctx)
	for _, key := range keys {
		err = errors.Join(err, s.Mirror(ctx, key))
	}
	return err
}

// mirrorWait is how long a comparison waits for a process that writes the mirror, which takes a moment unless it is stopped.
const mirrorWait = 3 * time.Second

// errMirrorBusy says that another process writes the mirror of a session.
var errMirrorBusy = errors.New("another process writes the mirror")

// holdMirror takes the lock of a session's mirror. With wait, it waits for another holder. The error is [errMirrorBusy] if there
// is one still.
func (s *Store) holdMirror(ctx context.Context, key session.Key, wait time.Duration) (*storage.Hold, error) {
	if err := key.Check(); err != nil { // it becomes a path
		return nil, err
	}
	limit := time.After(wait)
	for {
		held, ok, err := s.files.Hold(".mirror/" + key.Namespace + "/" + key.Session) // no other key begins with a dot
		if err != nil || ok {
			return held, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit:
			return nil, errMirrorBusy
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// updateMirror writes the mirror of a session. With compare, it also compares the files that were written before, writes
// damaged ones again, and removes those of pruned checkpoints; faults are what it has found. A checkpoint that cannot be read
// is a fault, too. The error is [errMirrorBusy] while another process writes it.
func (s *Store) updateMirror(ctx context.Context, key session.Key, compare bool) (faults []cas.Fault, err error) {
	wait := time.Duration(0)
	if compare {
		wait = mirrorWait
	}
	held, err := s.holdMirror(ctx, key, wait)
	if err != nil {
		return nil, err
	}
	defer held.Unlock()
	for {
		rows, err := s.State.Checkpoints(ctx, key)
		if err != nil {
			return faults, err
		}
		m := &mirrorUpdate{Store: s, key: key, compare: compare, write: map[string][]byte{}}
		revision, complete, err := m.addStatus(ctx)
		complete = complete && (len(rows) == 0 || rows[0].MirroredAt.Valid)
		if err != nil || complete && !compare {
			return faults, err
		}
		if err := m.read(ctx, rows); err != nil {
			return nil, err
		}
		if err := s.putMirror(ctx, key, m.write); err != nil {
			return nil, fmt.Errorf("write the mirror of session %s: %w", key.Session, err)
		}
		faults, compare = append(faults, m.faults...), false
		if complete || slices.ContainsFunc(m.faults, func(f cas.Fault) bool { return f.Repaired == "" }) {
			return faults, nil
		}
		if err := s.State.SetMirrored(ctx, key, revision, rows...); err != nil {
			return nil, err
		}
	}
}

// putMirror replaces files of the mirror of a session, by their names.
func (s *Store) putMirror(ctx context.Context, key session.Key, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := s.mirror.Replace(ctx, mirrorDir(key)+"/"+name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// mirrorUpdate is an update of a session's mirror.
type mirrorUpdate struct {
	*Store
	key     session.Key
	compare bool
	// restored: the database was restored, so the mirror may lack anything.
	restored bool
	// known are the session's checkpoints, and newest those after each phase that were not pruned.
	known  map[spec.Digest]bool
	newest map[string]state.Checkpoint
	// write are the files to write, by their names.
	write  map[string][]byte
	faults []cas.Fault
}

// read decides what to write.
func (m *mirrorUpdate) read(ctx context.Context, rows []state.Checkpoint) error {
	m.known, m.newest = map[spec.Digest]bool{}, map[string]state.Checkpoint{}
	for _, row := range rows {
		m.known[row.Digest] = true
		if _, ok := m.newest[row.Phase]; !ok && !row.PrunedAt.Valid {
			m.newest[row.Phase] = row
		}
	}
	for _, phase := range slices.Sorted(maps.Keys(m.newest)) {
		if row := m.newest[phase]; m.compare || m.restored || !row.MirroredAt.Valid {
			if err := m.add(ctx, row); err != nil {
				return err
			}
		}
	}
	if m.compare {
		return m.removeOthers(ctx)
	}
	return nil
}

func (m *mirrorUpdate) fault(phase, what, how string, kind error) {
	m.faults = append(m.faults, cas.Fault{Path: mirrorFile(m.key, phase), What: what, Repaired: how, Kind: kind})
}

// addStatus adds the file of the session's status with its costs so far, unless the mirror has it. It returns the status's
// revision, and whether the mirror is said to have it.
func (m *mirrorUpdate) addStatus(ctx context.Context) (revision int64, mirrored bool, err error) {
	e, has, err := m.State.MirroredExecution(ctx, m.key)
	if errors.Is(err, session.ErrNotFound) { // it has reached no boundary
		return 0, true, nil
	}
	m.restored, mirrored = has < 0, has == e.Revision
	if err != nil || mirrored && !m.compare {
		return e.Revision, mirrored, err
	}
	if mirrored {
		there, err := m.mirror.Read(ctx, mirrorDir(m.key)+"/"+executionFile)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return 0, false, err
		}
		var was session.Execution // its costs may have been lower
		if err == nil && decodeDigested(there, &was) == nil && was.Namespace == e.Namespace && was.Session == e.Session &&
			was.Revision == e.Revision {
			return e.Revision, true, nil
		}
		m.faults = append(m.faults, cas.Fault{
			Path: mirrorDir(m.key) + "/" + executionFile, What: "the file is missing or damaged",
			Repaired: "the file was written again from the database",
			Kind:     session.ErrCorrupt,
		})
	}
	costs, err := m.State.Costs(ctx, m.key, "phase", "persona")
	if err != nil {
		return 0, false, err
	}
	e.Status = (&state.Account{Costs: costs}).AddTo(e.Status)
	m.write[executionFile], err = encodeDigested(e)
	return e.Revision, mirrored, err
}

// add adds the file of a checkpoint, unless the mirror has it.
func (m *mirrorUpdate) add(ctx context.Context, row state.Checkpoint) error {
	what, kind := "", error(nil)
	if row.MirroredAt.Valid {
		data, err := m.mirror.Read(ctx, mirrorFile(m.key, row.Phase))
		switch {
		case errors.Is(err, storage.ErrNotFound):
			what, kind = "the file is missing", session.ErrNotFound
		case err != nil:
			return err
		case spec.DigestOf(data) == row.Digest:
			return nil
		case m.isAhead(row.Phase, data):
			return nil
		default:
			what, kind = "the file is not checkpoint "+string(row.Digest), session.ErrCorrupt
		}
	}
	data, err := m.Content.Blob(ctx, row.Digest)
	faults, err := faultsIn(err)
	if m.faults = append(m.faults, faults...); err != nil || len(faults) > 0 {
		return err
	}
	if m.write[path.Base(mirrorFile(m.key, row.Phase))] = data; what != "" && !m.restored {
		m.fault(row.Phase, what, "the file was written again from the checkpoint's blob", kind)
	}
	return nil
}

// isAhead reports whether a file has a checkpoint of the session that the database has not: an older database was put in its
// place. Such a file is not overwritten.
func (m *mirrorUpdate) isAhead(phase string, data []byte) bool {
	_, err := decodeCheckpoint(data)
	ahead := err == nil && !m.known[spec.DigestOf(data)]
	if ahead {
		m.fault(phase, "the database does not have this checkpoint; was an older backup put in its place?", "", session.ErrCorrupt)
	}
	return ahead
}

// removeOthers removes the files of phases without a checkpoint that is kept.
func (m *mirrorUpdate) removeOthers(ctx context.Context) error {
	names, err := m.mirror.List(ctx, mirrorDir(m.key))
	if err != nil {
		return err
	}
	for _, name := range names {
		phase, isCheckpoint := strings.CutPrefix(strings.TrimSuffix(name, ".json"), checkpointPrefix)
		if _, ok := m.newest[phase]; ok || !isCheckpoint {
			continue
		}
		key := mirrorDir(m.key) + "/" + name
		data, err := m.mirror.Read(ctx, key)
		if errors.Is(err, storage.ErrNotFound) || err == nil && m.isAhead(phase, data) {
			continue
		}
		if err == nil {
			err = m.mirror.Remove(ctx, key)
		}
		if err != nil {
			return err
		}
		if !m.known[spec.DigestOf(data)] {
			m.fault(phase, "the file is damaged", "it was removed; its checkpoint was pruned", session.ErrCorrupt)
		}
	}
	return nil
}
