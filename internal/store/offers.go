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

// offerKey returns the key of a worker's offer. Characters of the id that are not allowed in a
// file name are replaced; a digest makes the name unique.
func offerKey(worker string) string {
	safe := strings.Trim(unsafeInName.ReplaceAllString(worker, "_"), "_")
	if safe != worker || len(safe) > 100 {
		safe = safe[:min(len(safe), 100)] + "." + string(cas.DigestOf([]byte(worker))[:8])
	}
	return "workers/" + safe + ".json"
}

// offers stores the offers of workers.
type offers struct{ *documents }

// PutOffer stores a worker's offer and replaces the previous one.
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

// OfferFile returns the path of a worker's offer, for messages, and when it was last written by
// the storage's clock. Comparing this time with the offer's own shows whether the worker's clock
// is wrong.
func (s offers) OfferFile(worker string) (path string, written time.Time, err error) {
	key := offerKey(worker)
	written, err = s.docs.ModTime(key)
	if err != nil {
		err = fmt.Errorf("stat the offer of %s: %w", worker, err)
	}
	return s.fileOf(key), written, err
}

// RemoveOffer removes a worker's offer; it is no error if there is none.
func (s offers) RemoveOffer(_ context.Context, worker string) error {
	if err := s.remove(offerKey(worker)); err != nil {
		return fmt.Errorf("remove the offer of %s: %w", worker, err)
	}
	return nil
}

// remove removes a document if it exists.
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

// Offers lists the offers of workers, sorted by file name, including those of dead workers (see
// [spec.Offer.Live]). A damaged offer is moved to the quarantine and skipped: its worker writes
// it again within seconds.
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
