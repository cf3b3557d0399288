package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// offerPath is where a worker's offer lies. Whatever a file name should not
// hold is replaced in the id, and a digest keeps different ids apart.
func (s *Store) offerPath(worker string) string {
	safe := strings.Trim(unsafeInName.ReplaceAllString(worker, "_"), "_")
	if safe != worker || len(safe) > 100 {
		safe = safe[:min(len(safe), 100)] + "." + string(digestOf([]byte(worker))[:8])
	}
	return s.path("workers", safe+".json")
}

// PutOffer publishes what a worker offers, replacing what it published before.
func (s *Store) PutOffer(ctx context.Context, o spec.Offer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.Worker == "" {
		return errors.New("publish an offer: missing worker")
	}
	o.Schema = session.OfferSchema
	data, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return fmt.Errorf("publish the offer of %s: %w", o.Worker, err)
	}
	if err := s.write(s.offerPath(o.Worker), append(data, '\n'), untilPowerLoss); err != nil {
		return fmt.Errorf("publish the offer of %s: %w", o.Worker, err)
	}
	return nil
}

// RemoveOffer takes back what a worker offers; it need not be there.
func (s *Store) RemoveOffer(_ context.Context, worker string) error {
	if err := os.Remove(s.offerPath(worker)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take back the offer of %s: %w", worker, err)
	}
	return nil
}

// Offers lists what workers publish, sorted by file name, those of dead workers
// included ([spec.Offer.Live] tells). A damaged offer is quarantined and left
// out: its worker renews it within seconds.
func (s *Store) Offers(ctx context.Context) ([]spec.Offer, error) {
	files, err := s.documents(ctx, s.path("workers"), "")
	if err != nil {
		return nil, err
	}
	out := []spec.Offer{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var o spec.Offer
		err := s.readDocument(files[name], "offer", func(data []byte) error {
			o = spec.Offer{}
			if err := json.Unmarshal(data, &o); err != nil {
				return err
			}
			if o.Schema != session.OfferSchema {
				return fmt.Errorf("its schema is %q, not %q", o.Schema, session.OfferSchema)
			}
			return nil
		})
		switch {
		case err == nil:
			out = append(out, o)
		case !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrCorrupt):
			return nil, err
		}
	}
	return out, nil
}
