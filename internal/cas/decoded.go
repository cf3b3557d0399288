package cas

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// How many manifests are kept decoded, and how many paths of all together: about 60 MB.
const (
	maxDecoded      = 8
	maxDecodedPaths = 250_000
)

// decoded is a manifest that many may read at a time. Nobody changes it.
type decoded struct {
	Manifest
	name spec.Digest
	// blob is what the manifest's was when its content was verified.
	blob storage.BlobInfo
	// paths lists the manifest's, sorted; bytes is the size of its files together.
	paths func() []string
	bytes func() int64
}

func newDecoded(name spec.Digest, m Manifest, blob storage.BlobInfo) *decoded {
	return &decoded{Manifest: m, name: name, blob: blob, paths: sync.OnceValue(m.Paths), bytes: sync.OnceValue(m.bytes)}
}

// recentManifests are those that were decoded last, the newest first: successive steps of
// a session work on the same ones, and decoding costs more than all else of a small change.
type recentManifests struct {
	mu   sync.Mutex
	held []*decoded
}

func (r *recentManifests) get(name spec.Digest) *decoded {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.held, func(d *decoded) bool { return d.name == name })
	if i < 0 {
		return nil
	}
	d := r.held[i]
	r.held = slices.Insert(slices.Delete(r.held, i, i+1), 0, d)
	return d
}

func (r *recentManifests) add(d *decoded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, paths := []*decoded{d}, len(d.Manifest)
	for _, o := range r.held {
		if paths += len(o.Manifest); o.name != d.name && len(held) < maxDecoded && paths <= maxDecodedPaths {
			held = append(held, o)
		}
	}
	r.held = held
}

// SharedManifest is [Store.Manifest] for those who do not change what they get: others may
// use the same one. Its blob is read again only if it is not as it was when it was verified.
func (s trees) SharedManifest(ctx context.Context, name spec.Digest) (Manifest, error) {
	d, err := s.shared(ctx, name)
	if err != nil {
		return nil, err
	}
	return d.Manifest, nil
}

func (s trees) shared(ctx context.Context, name spec.Digest) (*decoded, error) {
	// Before it is read: what happens to the blob meanwhile is noticed next time.
	blob, statErr := s.in.StatBlob(name)
	d := s.recent.get(name)
	if d != nil && statErr == nil && d.blob.Untouched(blob) {
		return d, nil
	}
	if d != nil { // it was marked as used, or something has happened to it
		if _, err := s.CopyBlob(ctx, name, io.Discard); err != nil {
			return nil, fmt.Errorf("read a manifest: %w", err)
		}
		d = &decoded{d.Manifest, name, blob, d.paths, d.bytes}
	} else {
		m, err := s.Manifest(ctx, name)
		if err != nil {
			return nil, err
		}
		d = newDecoded(name, m, blob)
	}
	s.recent.add(d)
	return d, nil
}

// remember keeps a manifest that was stored just now. paths are its own, sorted; nil: they
// are sorted when they are needed.
func (s trees) remember(name spec.Digest, m Manifest, paths []string) {
	blob, err := s.in.StatBlob(name)
	if err != nil {
		return
	}
	d := newDecoded(name, m, blob)
	if paths != nil {
		d.paths = func() []string { return paths }
	}
	s.recent.add(d)
}
