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

	"github.com/maestro-hive/maestro/internal/team"
)

// PutBreaker mirrors a breaker in breakers/<name>.json. An older state never
// replaces a newer one, whoever of several processes is the last to write.
func (s *Store) PutBreaker(_ context.Context, b team.BreakerStatus) (err error) {
	if err := team.CheckName(b.Name); err != nil {
		return fmt.Errorf("breaker: %w", err)
	}
	lock := s.path("locks", ".breakers", b.Name) // no namespace begins with a dot
	if err := s.makeDir(filepath.Dir(lock), untilPowerLoss); err != nil {
		return fmt.Errorf("make room for a lock: %w", err)
	}
	l := flock.New(lock, flock.SetPermissions(fileMode))
	if err := l.Lock(); err != nil {
		_ = l.Close()
		return fmt.Errorf("lock breaker %s: %w", b.Name, err)
	}
	defer closing(l, &err)
	stored, err := s.Breaker(b.Name)
	switch {
	case errors.Is(err, team.ErrNotFound), errors.Is(err, team.ErrCorrupt):
	case err != nil:
		return err
	case !b.NewerThan(stored):
		return nil
	}
	b.Schema = team.BreakerSchema
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

// Breaker reads what the store mirrors of a breaker: [team.ErrNotFound] if that
// is nothing, [team.ErrCorrupt] if it was damaged; it is then in the quarantine,
// and written anew at the breaker's next change.
func (s *Store) Breaker(name string) (team.BreakerStatus, error) {
	if err := team.CheckName(name); err != nil {
		return team.BreakerStatus{}, fmt.Errorf("breaker: %w", err)
	}
	var b team.BreakerStatus
	err := s.readDocument(s.breakerPath(name), "breaker", func(data []byte) error {
		b = team.BreakerStatus{}
		if err := json.Unmarshal(data, &b); err != nil {
			return err
		}
		if b.Schema != team.BreakerSchema || b.Name != name {
			return fmt.Errorf("it is not the %s of breaker %s", team.BreakerSchema, name)
		}
		return nil
	})
	if err != nil {
		return team.BreakerStatus{}, err
	}
	return b, nil
}

// Breakers lists what the store mirrors of breakers, sorted by name. What is
// damaged is left out.
func (s *Store) Breakers(ctx context.Context) ([]team.BreakerStatus, error) {
	files, err := s.documents(ctx, s.path("breakers"), "")
	if err != nil {
		return nil, err
	}
	out := []team.BreakerStatus{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if team.CheckName(name) != nil {
			continue
		}
		b, err := s.Breaker(name)
		switch {
		case err == nil:
			out = append(out, b)
		case !errors.Is(err, team.ErrNotFound) && !errors.Is(err, team.ErrCorrupt):
			return nil, err
		}
	}
	return out, nil
}
