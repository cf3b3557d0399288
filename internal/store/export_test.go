package store

import (
	"context"
	"io"
	"regexp"
	"sync"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Seal lets tests write documents as the store does, with content of their own.
func Seal(v any) ([]byte, error) { return seal(v) }

// DurabilityOrder sees what becomes durable, in order.
type DurabilityOrder struct {
	storage.Storage
	mu      sync.Mutex
	durable map[spec.Digest]bool
	// Named counts blobs that were named by what became durable.
	Named int
	// Wrong lists what became durable before a blob that it names.
	Wrong []string
}

// RecordDurability looks at all that a store writes from now on.
func RecordDurability(s *Store) *DurabilityOrder {
	o := &DurabilityOrder{Storage: s.docs, durable: map[spec.Digest]bool{}}
	db := s.State
	*s = *newStore(o, s.dir, "", s.id, Options{Clock: s.now})
	s.State, s.state = db, db
	return o
}

// Forget takes a blob for one that is not durable.
func (o *DurabilityOrder) Forget(digest spec.Digest) { delete(o.durable, digest) }

var digestPattern = regexp.MustCompile("[0-9a-f]{64}")

// check notes blobs that data names and that are not durable.
func (o *DurabilityOrder) check(what string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, found := range digestPattern.FindAllString(string(data), -1) {
		digest := spec.Digest(found)
		if _, err := o.StatBlob(digest); err != nil {
			continue // a digest of something else
		}
		o.Named++
		if !o.durable[digest] {
			o.Wrong = append(o.Wrong, what+" before "+found)
		}
	}
}

// became notes that blobs are durable, all at once.
func (o *DurabilityOrder) became(digests ...spec.Digest) error {
	o.mu.Lock()
	for _, digest := range digests {
		o.durable[digest] = true
	}
	o.mu.Unlock()
	for _, digest := range digests {
		r, err := o.OpenBlob(digest)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		o.check("blob "+string(digest), data)
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (o *DurabilityOrder) PutBlob(digest spec.Digest, data []byte, d storage.Durability) (bool, error) {
	made, err := o.Storage.PutBlob(digest, data, d)
	if err == nil && d == storage.Durable {
		err = o.became(digest)
	}
	return made, err
}

func (o *DurabilityOrder) NewBatch() (storage.BlobBatch, error) {
	b, err := o.Storage.NewBatch()
	return &batchOrder{BlobBatch: b, order: o}, err
}

// batchOrder sees what becomes durable with a batch.
type batchOrder struct {
	storage.BlobBatch
	order *DurabilityOrder
	mu    sync.Mutex
	put   []spec.Digest
}

func (b *batchOrder) Put(digest spec.Digest, content []byte) error {
	b.mu.Lock()
	b.put = append(b.put, digest)
	b.mu.Unlock()
	return b.BlobBatch.Put(digest, content)
}

func (b *batchOrder) Commit(ctx context.Context) error {
	if err := b.BlobBatch.Commit(ctx); err != nil {
		return err
	}
	return b.order.became(b.put...)
}

func (o *DurabilityOrder) FlushBlobs(digests []spec.Digest) error {
	if err := o.Storage.FlushBlobs(digests); err != nil {
		return err
	}
	return o.became(digests...)
}

func (o *DurabilityOrder) Write(key string, data []byte, version storage.Version, d storage.Durability) (storage.Version, error) {
	if d == storage.Durable {
		o.check(key, data)
	}
	return o.Storage.Write(key, data, version, d)
}

func (o *DurabilityOrder) Lock(ctx context.Context, key string) (storage.Locked, error) {
	l, err := o.Storage.Lock(ctx, key)
	return lockedOrder{l, o}, err
}

type lockedOrder struct {
	storage.Locked
	order *DurabilityOrder
}

func (l lockedOrder) Write(key string, data []byte, version storage.Version, d storage.Durability) (storage.Version, error) {
	if d == storage.Durable {
		l.order.check(key, data)
	}
	return l.Locked.Write(key, data, version, d)
}
