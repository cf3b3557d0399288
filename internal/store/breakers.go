package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// PutBreaker mirrors a breaker in breakers/<name>.json. An older state never
// replaces a newer one, whoever of several processes is the last to write.
func (s *Store) PutBreaker(_ context.Context, b session.BreakerStatus) (err error) {
	if err := spec.CheckName(b.Name); err != nil {
		return fmt.Errorf("breaker: %w", err)
	}
	lock := s.path("locks", ".breakers", b.Name) // no namespace begins with a dot
	if err := s.makeDir(filepath.Dir(lock), untilPowerLoss); err != nil {
		return fmt.Errorf("create the directory of a lock: %w", err)
	}
	l := flock.New(lock, flock.SetPermissions(fileMode))
	if err := l.Lock(); err != nil {
		_ = l.Close()
		return fmt.Errorf("lock breaker %s: %w", b.Name, err)
	}
	defer closing(l, &err)
	stored, err := s.Breaker(b.Name)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
	case err != nil:
		return err
	case !b.NewerThan(stored):
		return nil
	}
	b.Schema = session.BreakerSchema
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("write breaker %s: %w", b.Name, err)
	}
	if err := s.write(s.breakerPath(b.Name), append(data, '\n'), untilPowerLoss); err != nil {
		return fmt.Errorf("write breaker %s: %w", b.Name, err)
	}
	return nil
}

func (s *Store) breakerPath(name string) string { return s.path("breakers", name+".json") }

// Breaker reads what the store mirrors of a breaker: [session.ErrNotFound] if that
// is nothing, [session.ErrCorrupt] if it was damaged; it is then in the quarantine,
// and written anew at the breaker's next change.
func (s *Store) Breaker(name string) (session.BreakerStatus, error) {
	if err := spec.CheckName(name); err != nil {
		return session.BreakerStatus{}, fmt.Errorf("breaker: %w", err)
	}
	var b session.BreakerStatus
	err := s.readDocument(s.breakerPath(name), "breaker", func(data []byte) error {
		b = session.BreakerStatus{}
		if err := json.Unmarshal(data, &b); err != nil {
			return err
		}
		if b.Schema != session.BreakerSchema || b.Name != name {
			return fmt.Errorf("it is not the %s of breaker %s", session.BreakerSchema, name)
		}
		return nil
	})
	if err != nil {
		return session.BreakerStatus{}, err
	}
	return b, nil
}

// Breakers lists what the store mirrors of breakers, sorted by name. What is
// damaged is left out.
func (s *Store) Breakers(ctx context.Context) ([]session.BreakerStatus, error) {
	files, err := s.documents(ctx, s.path("breakers"), "")
	if err != nil {
		return nil, err
	}
	out := []session.BreakerStatus{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if spec.CheckName(name) != nil {
			continue
		}
		b, err := s.Breaker(name)
		switch {
		case err == nil:
			out = append(out, b)
		case !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrCorrupt):
			return nil, err
		}
	}
	return out, nil
}
