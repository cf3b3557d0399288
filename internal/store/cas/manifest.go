package cas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// DeltaSchema is the schema name in a delta's blob.
const DeltaSchema = "maestro.delta/v1"

// Entry is a file or a link in a tree.
type Entry struct {
	Executable bool `json:"executable,omitempty"`
	// Link is a link's target, relative to the directory of the link; empty for a file.
	Link string `json:"link,omitempty"`
	// SHA256 is the digest of a file's content; empty for a link.
	SHA256 spec.Digest `json:"sha256,omitempty"`
	// Size is a file's size in bytes.
	Size int64 `json:"size,omitempty"`
}

// Change is what a delta does to a path: it sets the path's entry, or deletes it.
type Change struct {
	Deleted bool `json:"deleted,omitempty"`
	Entry
}

// Manifest is a tree: its files and links by path. A directory exists only if it contains a file
// or a link.
type Manifest map[string]Entry

// Delta is the difference between two trees, by path.
type Delta map[string]Change

type deltaDocument struct {
	Changes Delta  `json:"changes"`
	Schema  string `json:"schema"`
}

// Paths lists the manifest's paths, sorted bytewise.
func (m Manifest) Paths() []string { return slices.Sorted(maps.Keys(m)) }

// sorted yields the manifest's paths and entries, sorted bytewise by path.
func (m Manifest) sorted() iter.Seq2[string, Entry] {
	return func(yield func(string, Entry) bool) {
		for _, p := range m.Paths() {
			if !yield(p, m[p]) {
				return
			}
		}
	}
}

// blobs are the digests of the manifest's files, each once.
func (m Manifest) blobs() []spec.Digest {
	names := make([]spec.Digest, 0, len(m))
	for _, e := range m {
		if e.SHA256 != "" {
			names = append(names, e.SHA256)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Check returns an error if no directory could hold the manifest's files.
func (m Manifest) Check() error {
	for p, e := range m {
		if err := e.check(p); err != nil {
			return err
		}
	}
	return m.checkNesting()
}

// checkNesting returns an error if an entry is below a file.
func (m Manifest) checkNesting() error {
	dirs := make(map[string]struct{}, len(m)/8) // paths that are not files
	for p := range m {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if _, ok := dirs[dir]; ok {
				break
			}
			if _, ok := m[dir]; ok {
				return fmt.Errorf("%q cannot be a file, because %q exists", dir, p)
			}
			dirs[dir] = struct{}{}
		}
	}
	return nil
}

func (e Entry) check(p string) error {
	err := CheckPath(p)
	if err == nil {
		err = e.checkContent()
	}
	if err == nil && e.Link != "" {
		err = CheckLink(p, e.Link)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", textfmt.Shorten(p, 120), err)
	}
	return nil
}

// checkContent returns an error if the entry is neither a valid file nor a valid link.
func (e Entry) checkContent() error {
	switch {
	case e.Link != "" && (e.SHA256 != "" || e.Size != 0 || e.Executable):
		return errors.New("the entry is both a link and a file")
	case e.Link != "":
		_, err := checkTarget(e.Link)
		return err
	case !e.SHA256.Valid():
		return errors.New("the entry is neither a link nor a file with a SHA-256")
	case e.Size < 0 || e.Size > maxBytes:
		return errors.New("the entry's size is negative or too large")
	}
	return nil
}

// Check returns an error if the delta cannot be applied to any manifest.
func (d Delta) Check() error {
	set := make(Manifest, len(d))
	for p, c := range d {
		if c.Deleted {
			if err := CheckPath(p); err != nil {
				return fmt.Errorf("%q: %w", textfmt.Shorten(p, 120), err)
			}
			if c.Entry != (Entry{}) {
				return fmt.Errorf("%q is both set and deleted", p)
			}
			continue
		}
		if err := c.check(p); err != nil {
			return err
		}
		set[p] = c.Entry
	}
	return set.checkNesting()
}

// Changed lists the paths that the delta sets, sorted.
func (d Delta) Changed() []string { return d.paths(false) }

// Deleted lists the paths that the delta deletes, sorted.
func (d Delta) Deleted() []string { return d.paths(true) }

func (d Delta) paths(deleted bool) []string {
	out := []string{}
	for p, c := range d {
		if c.Deleted == deleted {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// EncodeDelta encodes a delta: JSON without spaces, with sorted names, so that equal deltas have
// equal blobs.
func EncodeDelta(d Delta) ([]byte, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	if d == nil {
		d = Delta{}
	}
	return canonical(deltaDocument{Changes: d, Schema: DeltaSchema})
}

// DecodeDelta decodes a delta's blob. It returns the errors of [Delta.Check], too.
func DecodeDelta(data []byte) (Delta, error) {
	var doc deltaDocument
	if err := decodeStrict(data, &doc); err != nil {
		return nil, err
	}
	if doc.Schema != DeltaSchema || doc.Changes == nil {
		return nil, fmt.Errorf("the document's schema is %q, not %q", doc.Schema, DeltaSchema)
	}
	if err := doc.Changes.Check(); err != nil {
		return nil, err
	}
	return doc.Changes, nil
}

// canonical encodes v as JSON without spaces and with sorted map keys. Struct fields must be
// declared in the order of their JSON names.
func canonical(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func decodeStrict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the document")
	}
	return nil
}

// Manifest reads a whole tree. Errors are those of [Store.Tree].
func (s *Store) Manifest(ctx context.Context, name spec.Digest) (Manifest, error) {
	t, err := s.Tree(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.Manifest(ctx)
}

// TreeOf makes a tree of a valid manifest. It does not store the tree.
func (s *Store) TreeOf(m Manifest) *Tree {
	t := s.emptyTree()
	_ = t.setAll(context.Background(), m) // it fails only where it reads the store
	return t
}

// PutManifest stores a tree durably. The blobs that it refers to must be durable already.
func (s *Store) PutManifest(ctx context.Context, m Manifest) (spec.Digest, error) {
	if err := m.Check(); err != nil {
		return "", fmt.Errorf("write a tree: %w", err)
	}
	return s.putTree(ctx, s.TreeOf(m))
}

// Delta reads a delta, verified. Errors are those of [Store.Blob]; a blob that is not a delta is
// [session.ErrNotFound], too.
func (s *Store) Delta(ctx context.Context, name spec.Digest) (Delta, error) {
	data, err := s.Blob(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read a delta: %w", err)
	}
	d, err := DecodeDelta(data)
	if err != nil {
		return nil, s.WrongKind(name, "delta", err)
	}
	return d, nil
}

// PutDelta stores a delta durably. The blobs that it refers to must be durable already.
func (s *Store) PutDelta(ctx context.Context, d Delta) (spec.Digest, error) {
	data, err := EncodeDelta(d)
	if err != nil {
		return "", fmt.Errorf("write a delta: %w", err)
	}
	return s.PutBlob(ctx, data)
}

// List lists the first paths of a manifest, at most the given number, in the order of its
// directories.
func (s *Store) List(ctx context.Context, manifest spec.Digest, most int) (session.Listing, error) {
	t, err := s.Tree(ctx, manifest)
	if err != nil {
		return session.Listing{}, err
	}
	out := session.Listing{Paths: []string{}, Count: t.Files()}
	err = t.walk(ctx, ".", func(p string, _ Entry) error {
		if len(out.Paths) == most {
			return fs.SkipAll
		}
		out.Paths = append(out.Paths, p)
		return nil
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	slices.Sort(out.Paths)
	return out, err
}

// Held returns those of the paths that a manifest has, in the given order.
func (s *Store) Held(ctx context.Context, manifest spec.Digest, paths []string) (held []string, err error) {
	t, err := s.Tree(ctx, manifest)
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		_, has, err := t.Get(ctx, p)
		if err != nil {
			return nil, err
		}
		if has {
			held = append(held, p)
		}
	}
	return held, nil
}
