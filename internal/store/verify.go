package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
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
	// Notes say what could not be compared.
	Notes []string `json:"notes,omitempty"`
}

// VerifySession verifies everything that a session needs: its rows, all blobs that these name, directly or through manifests,
// and its mirror. A damaged mirror is written again. A damaged checkpoint is stored again if the mirror has it; other damaged
// blobs are moved to the directory damaged. The error says only that the store cannot be used, or is [session.ErrNotFound] for an
// unknown session.
func (s *Store) VerifySession(ctx context.Context, key session.Key) (Report, error) {
	if _, err := s.State.Standing(ctx, key); errors.Is(err, state.ErrNotFound) {
		return Report{}, &cas.Fault{
			Path: mirrorDir(key), What: "the store " + s.Dir() + " has no such session",
			Kind: session.ErrNotFound,
		}
	} else if err != nil {
		return Report{}, err
	}
	v := newVerification(s)
	if err := v.session(ctx, key); err != nil {
		return Report{}, err
	}
	return v.finish(ctx, key)
}

// finish verifies what rows of a session name, or of all sessions if the key is zero, and returns the report.
func (v *verification) finish(ctx context.Context, key session.Key) (Report, error) {
	roots, err := v.store.State.Roots(ctx, key)
	if err == nil {
		err = v.roots(ctx, roots)
	}
	if err == nil {
		err = v.neededBlobs(ctx)
	}
	if err != nil {
		return Report{}, err
	}
	v.report.Faults = make([]cas.Fault, 0, len(v.faults))
	for _, path := range slices.Sorted(maps.Keys(v.faults)) {
		v.report.Faults = append(v.report.Faults, v.faults[path])
	}
	return v.report, nil
}

// VerifyAll verifies the whole store: every blob, and every session as VerifySession does.
func (s *Store) VerifyAll(ctx context.Context) (Report, error) {
	v := newVerification(s)
	if err := v.allBlobs(ctx); err != nil {
		return Report{}, err
	}
	sessions, err := s.State.Standings(ctx)
	if err != nil {
		return Report{}, err
	}
	for _, one := range sessions {
		if err := v.session(ctx, one.Key); err != nil {
			return Report{}, err
		}
	}
	if err := v.database(ctx); err != nil {
		return Report{}, err
	}
	return v.finish(ctx, session.Key{})
}

// database verifies the pages of the database, and the digests of its rows.
func (v *verification) database(ctx context.Context) error {
	return v.fault(stateFault(v.store.State.Check(ctx)), "")
}

// stateFault is a damage of the database as a fault; other errors stay.
func stateFault(err error) error {
	if errors.Is(err, state.ErrDamaged) {
		return &cas.Fault{Path: state.FileName, What: err.Error(), Kind: session.ErrCorrupt}
	}
	return err
}

// session verifies a session's checkpoints, mirror, calls and rounds.
func (v *verification) session(ctx context.Context, key session.Key) error {
	v.report.Sessions++
	list, err := v.store.Checkpoints(ctx, key)
	v.report.Checkpoints += len(list)
	if err := v.fault(err, "session "+key.Session); err != nil {
		return err
	}
	faults, err := v.store.updateMirror(ctx, key, true)
	if errors.Is(err, errMirrorBusy) {
		v.report.Notes = append(v.report.Notes, fmt.Sprintf("the mirror of session %s was not compared, because another process has "+
			"been writing it for %s; "+
			"if that process is stopped, continue or end it, and verify again", key.Session, mirrorWait))
		err = nil
	}
	for _, f := range faults {
		if err := v.fault(&f, ""); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	calls, err := v.store.State.Calls(ctx, state.Assignment{Key: key})
	v.report.Calls += len(calls)
	if err := v.fault(stateFault(err), "session "+key.Session); err != nil {
		return err
	}
	records, err := v.store.State.Records(ctx, key)
	v.report.Records += len(records)
	return v.fault(stateFault(err), "session "+key.Session)
}

// neededBlobs verifies the recorded blobs.
func (v *verification) neededBlobs(ctx context.Context) error {
	return v.store.Content.VerifyBlobs(ctx, slices.Sorted(maps.Keys(v.needed)), func(name spec.Digest, n int64, err error) error {
		by := v.needed[name]
		v.report.Blobs++
		v.report.Bytes += n
		// A blob that is not needed may have been pruned since it was listed.
		if by == "" && errors.Is(err, session.ErrNotFound) {
			return nil
		}
		return v.fault(err, by)
	})
}

// allBlobs records every blob, and files among them that are not blobs.
func (v *verification) allBlobs(ctx context.Context) error {
	err := v.store.blobs.ListBlobs(ctx,
		func(name spec.Digest, _ storage.BlobInfo) { v.needed[name] = "" },
		func(key, what string) { v.faults[key] = cas.Fault{Path: key, What: what, Kind: session.ErrCorrupt} })
	if err != nil {
		return fmt.Errorf("list the blobs: %w", err)
	}
	return nil
}
