package store

import (
	"context"
	"errors"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// EncodeDigested lets tests write documents as the store does, with content of their own.
func EncodeDigested(v any) ([]byte, error) { return encodeDigested(v) }

// HoldMirror lets tests be another process that writes a session's mirror.
func HoldMirror(s *Store, key session.Key) (*storage.Hold, error) {
	return s.holdMirror(context.Background(), key, 0)
}

// DurabilityOrder sees which blobs become durable, in order.
type DurabilityOrder struct {
	storage.Blobs
	mu      sync.Mutex
	durable map[spec.Digest]bool
	// Named counts blobs that were named by what became durable.
	Named int
	// Wrong lists what became durable before a blob that it names.
	Wrong []string
}

// RecordDurability looks at all content that a store writes from now on.
func RecordDurability(s *Store) *DurabilityOrder {
	o := &DurabilityOrder{Blobs: s.files, durable: map[spec.Digest]bool{}}
	s.Content = cas.New(o, cas.Options{StoreDir: s.Dir()})
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
		if found, err := o.StatBlobs(context.Background(), digest); err != nil || len(found) == 0 {
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
		r, err := o.OpenBlob(context.Background(), digest)
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

func (o *DurabilityOrder) PutBlob(ctx context.Context, digest spec.Digest, data []byte) error {
	err := o.Blobs.PutBlob(ctx, digest, data)
	if err == nil {
		err = o.became(digest)
	}
	return err
}

func (o *DurabilityOrder) NewBatch() (storage.BlobBatch, error) {
	b, err := o.Blobs.NewBatch()
	return &batchOrder{BlobBatch: b, order: o}, err
}

// batchOrder sees what becomes durable with a batch.
type batchOrder struct {
	storage.BlobBatch
	order *DurabilityOrder
	mu    sync.Mutex
	put   []spec.Digest
}

func (b *batchOrder) Put(ctx context.Context, digest spec.Digest, content []byte) error {
	b.mu.Lock()
	b.put = append(b.put, digest)
	b.mu.Unlock()
	return b.BlobBatch.Put(ctx, digest, content)
}

func (b *batchOrder) Commit(ctx context.Context) error {
	if err := b.BlobBatch.Commit(ctx); err != nil {
		return err
	}
	return b.order.became(b.put...)
}

// RunOf is the Temporal run of a test's session.
func RunOf(key session.Key) string { return "run of " + key.Session }

// PutCheckpoint stores a checkpoint, and writes it with its boundary as a session's workflow does.
func (s *Store) PutCheckpoint(ctx context.Context, key session.Key, c session.Checkpoint) (spec.Digest, error) {
	e, err := s.State.Execution(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		_, err = s.State.Admit(ctx, state.Admission{Key: key, TemporalRun: RunOf(key), OriginalRun: RunOf(key)})
	}
	if err != nil {
		return "", err
	}
	row, err := s.StoreCheckpoint(ctx, key, c)
	if err != nil {
		return "", err
	}
	at := e.BoundaryAt.Add(time.Microsecond)
	if c.CreatedAt.After(at) {
		at = c.CreatedAt
	}
	_, _, err = s.State.PutBoundary(ctx, state.Boundary{
		Key: key, TemporalRun: RunOf(key), FirstRun: RunOf(key), At: at, Status: e.Status, Checkpoint: &row, Answers: c.Answers,
	})
	if err == nil {
		err = s.Mirror(ctx, key)
	}
	return row.Digest, err
}

// PutRound writes the first round of an assignment.
func (s *Store) PutRound(ctx context.Context, key session.Key, id spec.AssignmentID, r session.RoundRecord,
	c *session.Conversation,
) error {
	of := state.Assignment{Key: key, AssignmentID: id}
	opened, err := s.State.OpenRound(ctx, state.RoundOrder{
		Assignment: of, TemporalRun: RunOf(key), Round: 1, Activity: "1", Seq: 1,
		Holder: "h",
	})
	if err != nil {
		return err
	}
	r.Order, r.Round, r.Activity, r.Seq = opened.Order, 1, "1", 1
	return s.State.PutRound(ctx, opened.Fence, of, r, c)
}
