package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// breakers stores copies of the states of breakers.
type breakers struct{ *documents }

// PutBreaker stores a breaker's state in breakers/<name>.json. It does not replace a newer state,
// even if several processes write at once.
func (s breakers) PutBreaker(_ context.Context, b session.BreakerStatus) (err error) {
	if err := spec.CheckName(b.Name); err != nil {
		return fmt.Errorf("breaker: %w", err)
	}
	err = storage.Update(s.docs, breakerKey(b.Name), storage.UntilPowerLoss, func() ([]byte, storage.Version, error) {
		stored, version, err := s.breaker(b.Name)
		switch {
		case missing(err):
		case err != nil:
			return nil, "", err
		case !b.NewerThan(stored):
			return nil, "", nil
		}
		b.Schema = session.BreakerSchema
		data, err := json.MarshalIndent(b, "", "  ")
		return append(data, '\n'), version, err
	})
	if err != nil {
		return fmt.Errorf("write breaker %s: %w", b.Name, err)
	}
	return nil
}

func breakerKey(name string) string { return "breakers/" + name + ".json" }

// Breaker returns the stored state of a breaker. The error is [session.ErrNotFound] if there is
// none, and [session.ErrCorrupt] if it was damaged. A damaged copy is moved to the quarantine,
// and the breaker's next change writes a new one.
func (s breakers) Breaker(name string) (session.BreakerStatus, error) {
	b, _, err := s.breaker(name)
	return b, err
}

func (s breakers) breaker(name string) (b session.BreakerStatus, version storage.Version, err error) {
	if err := spec.CheckName(name); err != nil {
		return b, "", fmt.Errorf("breaker: %w", err)
	}
	version, err = s.readDocument(breakerKey(name), "breaker", func(data []byte) error {
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
		return session.BreakerStatus{}, version, err
	}
	return b, version, nil
}

// Breakers lists the stored states of breakers, sorted by name. Damaged ones are skipped.
func (s breakers) Breakers(ctx context.Context) ([]session.BreakerStatus, error) {
	files, err := s.jsonFiles(ctx, "breakers", "")
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
