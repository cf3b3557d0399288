package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// teams stores the records of registered teams. The blobs that they refer to are kept.
type teams struct{ *documents }

// UpdateTeam rewrites the record of a registered team durably and returns it. change gets the
// stored record, or one without versions, and reports whether it has changed it. It may be called
// more than once. A damaged record is moved to the quarantine and replaced.
func (s teams) UpdateTeam(name string, change func(*session.TeamRecord) bool) (r session.TeamRecord, err error) {
	doc, err := teamKey(name)
	if err != nil {
		return r, err
	}
	err = storage.Update(s.docs, doc, storage.Durable, func() ([]byte, storage.Version, error) {
		stored, version, err := s.team(name)
		switch {
		case missing(err):
			stored = session.TeamRecord{Schema: session.TeamRecordSchema, Name: name}
		case err != nil:
			return nil, "", err
		}
		changed := change(&stored)
		r = stored
		if !changed {
			return nil, "", nil
		}
		data, err := seal(stored)
		return data, version, err
	})
	if err != nil {
		return session.TeamRecord{}, fmt.Errorf("write team %s: %w", name, err)
	}
	return r, nil
}

// RegisteredTeam reads the record of a registered team. The error is [session.ErrNotFound] if
// there is none, and [session.ErrCorrupt] if it was damaged and moved to the quarantine.
func (s teams) RegisteredTeam(name string) (session.TeamRecord, error) {
	r, _, err := s.team(name)
	return r, err
}

func (s teams) team(name string) (r session.TeamRecord, version storage.Version, err error) {
	doc, err := teamKey(name)
	if err != nil {
		return r, "", err
	}
	version, err = s.readDocument(doc, "team", func(data []byte) error {
		r = session.TeamRecord{}
		if err := unseal(data, &r); err != nil {
			return err
		}
		if r.Schema != session.TeamRecordSchema || r.Name != name || len(r.Versions) == 0 {
			return fmt.Errorf("it is not the %s of team %s", session.TeamRecordSchema, name)
		}
		return nil
	})
	if err != nil {
		return session.TeamRecord{}, version, err
	}
	return r, version, nil
}

// RemoveTeam removes the record of a registered team; it is no error if there is none.
func (s teams) RemoveTeam(name string) error {
	doc, err := teamKey(name)
	if err != nil {
		return err
	}
	if err := s.remove(doc); err != nil {
		return fmt.Errorf("remove team %s: %w", name, err)
	}
	return nil
}

// RegisteredTeams lists the names of registered teams, sorted.
func (s teams) RegisteredTeams(ctx context.Context) ([]string, error) {
	files, err := s.jsonFiles(ctx, "teams", "")
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(files))
	return slices.DeleteFunc(names, func(name string) bool { return spec.CheckName(name) != nil }), nil
}

func teamKey(name string) (string, error) {
	if err := spec.CheckName(name); err != nil {
		return "", fmt.Errorf("team: %w", err)
	}
	return "teams/" + name + ".json", nil
}

// teams records the blobs of registered teams as needed.
func (v *verification) teams(ctx context.Context) error {
	names, err := v.store.RegisteredTeams(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		r, err := v.store.RegisteredTeam(name)
		if err := v.fault(err, ""); err != nil {
			return err
		}
		for _, version := range r.Versions {
			v.need(version.Digest, "the registered team "+name)
			v.need(version.Text, "the registered team "+name)
		}
	}
	return nil
}
