package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// offerKey names a worker's offer. Whatever a file name should not
// hold is replaced in the id, and a digest keeps different ids apart.
func offerKey(worker string) string {
	safe := strings.Trim(unsafeInName.ReplaceAllString(worker, "_"), "_")
	if safe != worker || len(safe) > 100 {
		safe = safe[:min(len(safe), 100)] + "." + string(cas.DigestOf([]byte(worker))[:8])
	}
	return "workers/" + safe + ".json"
}

// offers has what workers offer.
type offers struct{ *documents }

// PutOffer publishes what a worker offers, replacing what it published before.
func (s offers) PutOffer(ctx context.Context, o spec.Offer) error {
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
	if err := s.replace(offerKey(o.Worker), append(data, '\n')); err != nil {
		return fmt.Errorf("publish the offer of %s: %w", o.Worker, err)
	}
	return nil
}

// OfferFile is where a worker's offer is, for people, and when it was last written by the
// clock of the storage. Compared with what the offer says, that tells how the worker's
// clock goes.
func (s offers) OfferFile(worker string) (path string, written time.Time, err error) {
	key := offerKey(worker)
	written, err = s.docs.ModTime(key)
	if err != nil {
		err = fmt.Errorf("stat the offer of %s: %w", worker, err)
	}
	return s.fileOf(key), written, err
}

// RemoveOffer takes back what a worker offers; it need not be there.
func (s offers) RemoveOffer(_ context.Context, worker string) error {
	if err := s.remove(offerKey(worker)); err != nil {
		return fmt.Errorf("take back the offer of %s: %w", worker, err)
	}
	return nil
}

// remove removes a document or a journal, if it is there.
func (s *documents) remove(key string) error {
	_, version, err := s.docs.Read(key)
	if err == nil {
		err = s.docs.Delete(key, version)
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// Offers lists what workers publish, sorted by file name, those of dead workers
// included ([spec.Offer.Live] tells). A damaged offer is quarantined and left
// out: its worker renews it within seconds.
func (s offers) Offers(ctx context.Context) ([]spec.Offer, error) {
	files, err := s.jsonFiles(ctx, "workers", "")
	if err != nil {
		return nil, err
	}
	out := []spec.Offer{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var o spec.Offer
		_, err := s.readDocument(files[name], "offer", func(data []byte) error {
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
