package cas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// The schema names of trees.
const (
	ManifestSchema = "maestro.manifest/v1"
	DeltaSchema    = "maestro.delta/v1"
)

// Entry is a file or a link in a tree.
type Entry struct {
	Executable bool `json:"executable,omitempty"`
	// Link is a link's target, relative to the link; empty for a file.
	Link string `json:"link,omitempty"`
	// SHA256 names a file's content; empty for a link.
	SHA256 spec.Digest `json:"sha256,omitempty"`
	// Size is a file's size in bytes.
	Size int64 `json:"size,omitempty"`
}

// Change is what a delta does to a path: it sets its entry, or deletes it.
type Change struct {
	Deleted bool `json:"deleted,omitempty"`
	Entry
}

// Manifest is a tree: its files and links by path. Directories exist only as
// far as there is something in them.
type Manifest map[string]Entry

// Delta is the difference between two trees, by path.
type Delta map[string]Change

type manifestDocument struct {
	Files  Manifest `json:"files"`
	Schema string   `json:"schema"`
}

type deltaDocument struct {
	Changes Delta  `json:"changes"`
	Schema  string `json:"schema"`
}

// Paths lists the manifest's paths, sorted bytewise.
func (m Manifest) Paths() []string { return slices.Sorted(maps.Keys(m)) }

// Check refuses manifests that no directory could hold.
func (m Manifest) Check() error {
	for p, e := range m {
		if err := e.check(p); err != nil {
			return err
		}
	}
	return m.checkNesting()
}

// checkNesting refuses a file under which another entry lies.
func (m Manifest) checkNesting() error {
	dirs := make(map[string]struct{}, len(m)/8) // known to be no files
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
	switch {
	case err != nil:
	case e.Link != "":
		if e.SHA256 != "" || e.Size != 0 || e.Executable {
			err = errors.New("the entry is a link and a file at once")
			break
		}
		err = CheckLink(p, e.Link)
	case !e.SHA256.Valid():
		err = errors.New("the entry is neither a link nor a file with a SHA-256")
	case e.Size < 0:
		err = errors.New("the entry has a negative size")
	}
	if err != nil {
		return fmt.Errorf("%q: %w", textfmt.Shorten(p, 120), err)
	}
	return nil
}

// Check refuses deltas that no manifest could take.
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

// Diff returns what makes base into target.
func Diff(base, target Manifest) Delta {
	d := Delta{}
	for p, e := range target {
		if old, ok := base[p]; !ok || old != e {
			d[p] = Change{Entry: e}
		}
	}
	for p := range base {
		if _, ok := target[p]; !ok {
			d[p] = Change{Deleted: true}
		}
	}
	return d
}

// Apply returns the tree that the delta makes of base, which it leaves alone.
// Where a path that the delta sets cannot exist beside one of base's (a file
// where the other needs a directory), the delta wins and the other goes.
func Apply(base Manifest, d Delta) Manifest {
	t := newTree(base)
	t.apply(d)
	return t.files
}

// tree is a manifest under change that knows its directories, so that it stays
// one that a directory can hold.
type tree struct {
	files Manifest
	// dirs counts the entries at any depth below each directory.
	dirs map[string]int
}

func newTree(m Manifest) *tree {
	t := &tree{files: make(Manifest, len(m)), dirs: map[string]int{}}
	for p, e := range m {
		t.put(p, e)
	}
	return t
}

// apply makes the delta's changes, deletions first.
func (t *tree) apply(d Delta) {
	for p, c := range d {
		if c.Deleted {
			t.remove(p)
		}
	}
	for p, c := range d {
		if !c.Deleted {
			t.set(p, c.Entry)
		}
	}
}

// set puts an entry at p and removes what cannot exist beside it.
func (t *tree) set(p string, e Entry) {
	if _, ok := t.files[p]; ok {
		t.files[p] = e
		return
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		t.remove(dir)
	}
	if t.dirs[p] > 0 {
		for below := range t.files {
			if strings.HasPrefix(below, p+"/") {
				t.remove(below)
			}
		}
	}
	t.put(p, e)
}

func (t *tree) put(p string, e Entry) {
	t.files[p] = e
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		t.dirs[dir]++
	}
}

func (t *tree) remove(p string) {
	if _, ok := t.files[p]; !ok {
		return
	}
	delete(t.files, p)
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		t.dirs[dir]--
	}
}

// EncodeManifest writes a manifest as its blob: JSON without spaces, with sorted
// names, so that equal trees have equal blobs.
func EncodeManifest(m Manifest) ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	return m.encode(m.Paths()), nil
}

// encode writes a sound manifest with these paths, as encoding/json does, but faster: it is
// what the size of a tree costs in a collection.
func (m Manifest) encode(paths []string) []byte {
	b := make([]byte, 0, 64+len(m)*160)
	b = append(b, `{"files":{`...)
	for i, p := range paths {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, p), ':')
		b = m[p].append(b)
	}
	b = append(b, `},"schema":`...)
	return append(appendText(b, ManifestSchema), '}')
}

func (e Entry) append(b []byte) []byte {
	from := len(b)
	if e.Executable {
		b = append(b, `,"executable":true`...)
	}
	if e.Link != "" {
		b = appendText(append(b, `,"link":`...), e.Link)
	}
	if e.SHA256 != "" {
		b = appendText(append(b, `,"sha256":`...), string(e.SHA256))
	}
	if e.Size != 0 {
		b = strconv.AppendInt(append(b, `,"size":`...), e.Size, 10)
	}
	b[from] = '{' // instead of the first comma: a sound entry has a field
	return append(b, '}')
}

// appendText writes a string as JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := canonical(s) // strings have no errors
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// DecodeManifest reads a manifest's blob and refuses what Check refuses.
func DecodeManifest(data []byte) (Manifest, error) {
	var doc manifestDocument
	if err := decodeStrict(data, &doc); err != nil {
		return nil, err
	}
	if doc.Schema != ManifestSchema || doc.Files == nil {
		return nil, fmt.Errorf("the document's schema is %q, not %q", doc.Schema, ManifestSchema)
	}
	if err := doc.Files.Check(); err != nil {
		return nil, err
	}
	return doc.Files, nil
}

// EncodeDelta writes a delta as its blob, in the form of EncodeManifest.
func EncodeDelta(d Delta) ([]byte, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	if d == nil {
		d = Delta{}
	}
	return canonical(deltaDocument{Changes: d, Schema: DeltaSchema})
}

// DecodeDelta reads a delta's blob and refuses what Check refuses.
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

// canonical writes v as JSON without spaces and with the names of maps sorted;
// fields must be declared in the order of their names.
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

// trees has the trees of files: manifests, deltas between them, and what is made of these.
type trees struct {
	*blobs
	recent *recentManifests
}

// Manifest reads a manifest, verified. Errors are those of [Store.Blob]; a blob
// that is no manifest is [session.ErrNotFound], too.
func (s trees) Manifest(ctx context.Context, name spec.Digest) (Manifest, error) {
	data, err := s.Blob(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	m, err := DecodeManifest(data)
	if err != nil {
		return nil, s.WrongKind(name, "manifest", err)
	}
	return m, nil
}

// PutManifest stores a manifest durably. What it names must be durable already.
func (s trees) PutManifest(ctx context.Context, m Manifest) (spec.Digest, error) {
	data, err := EncodeManifest(m)
	if err != nil {
		return "", fmt.Errorf("write a manifest: %w", err)
	}
	return s.PutBlob(ctx, data)
}

// Delta reads a delta, verified, with the errors of [Store.Manifest].
func (s trees) Delta(ctx context.Context, name spec.Digest) (Delta, error) {
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

// PutDelta stores a delta durably. What it names must be durable already.
func (s trees) PutDelta(ctx context.Context, d Delta) (spec.Digest, error) {
	data, err := EncodeDelta(d)
	if err != nil {
		return "", fmt.Errorf("write a delta: %w", err)
	}
	return s.PutBlob(ctx, data)
}

// Paths lists a manifest's paths, sorted.
func (s trees) Paths(ctx context.Context, manifest spec.Digest) ([]string, error) {
	m, err := s.shared(ctx, manifest)
	if err != nil {
		return nil, err
	}
	return slices.Clone(m.paths()), nil
}
