package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/spec"
)

// packSet is a set of packs. It does not change.
type packSet struct {
	packs []*pack
	// where has each entry of each pack, sorted by prefix, so that it costs the same to find a
	// blob among many packs.
	where []located
}

// located is where a pack has a blob, whose digest begins with a prefix: the number of its entry.
type located struct {
	prefix uint64
	in     *pack
	entry  int
}

func prefix(digest []byte) uint64 { return binary.BigEndian.Uint64(digest) }

// each calls do for each copy of a blob, until an error.
func (s *packSet) each(digest rawDigest, do func(p *pack, at packed) error) error {
	begin := prefix(digest[:])
	i := sort.Search(len(s.where), func(i int) bool { return s.where[i].prefix >= begin })
	for ; i < len(s.where) && s.where[i].prefix == begin; i++ {
		p := s.where[i].in
		if e := p.at(s.where[i].entry); e.digest == digest {
			if err := do(p, e.packed); err != nil {
				return err
			}
		}
	}
	return nil
}

// with is the set of these packs, of which it may have some already.
func (s *packSet) with(packs []*pack) *packSet {
	stays := make(map[*pack]bool, len(packs))
	for _, p := range packs {
		stays[p] = true
	}
	had := make(map[*pack]bool, len(s.packs))
	for _, p := range s.packs {
		had[p] = true
	}
	var added []located
	for _, p := range packs {
		for i := 0; !had[p] && i < p.len(); i++ {
			added = append(added, located{prefix(p.entries[i*packEntry:]), p, i})
		}
	}
	slices.SortFunc(added, func(a, b located) int { return cmp.Compare(a.prefix, b.prefix) })
	where := make([]located, 0, len(s.where)+len(added))
	for _, old := range s.where {
		if !stays[old.in] {
			continue
		}
		for len(added) > 0 && added[0].prefix < old.prefix {
			where, added = append(where, added[0]), added[1:]
		}
		where = append(where, old)
	}
	return &packSet{packs, append(where, added...)}
}

// settled is how long the directory of packs has had a time when it is listed, so that any later
// change gives it another one.
const settled = 2 * time.Second

// packs are those that this process knows of.
type packs struct {
	mu    sync.Mutex
	known *packSet
	// modified is the time of the directory of packs, seen when it was first found to have it.
	modified, seen time.Time
	// listed: it was listed when it had had this time for long enough.
	listed bool
}

// list returns the packs that are known; with anew, those that are there.
func (k *packs) list(d *Directory, anew bool) (*packSet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = &packSet{}
	}
	if !anew {
		return k.known, nil
	}
	const tries = 100 // a pack may be replaced as soon as it is listed
	var err error
	for range tries {
		if err = k.read(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read a pack of blobs: %w", err)
	}
	return k.known, nil
}

// read reads the packs that are not known, if there can be any. The error is fs.ErrNotExist if
// they have changed meanwhile, so that a listing may have missed one.
func (k *packs) read(d *Directory) error {
	dir := filepath.Join(d.root, filepath.FromSlash(packsDir))
	before, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		k.known, k.listed = &packSet{}, false
		return nil
	}
	if err != nil {
		return err
	}
	if !before.ModTime().Equal(k.modified) {
		k.modified, k.seen, k.listed = before.ModTime(), d.now(), false
	}
	if k.listed {
		return nil
	}
	long := d.now().Sub(k.seen) > settled
	if err := k.readAll(d.root); err != nil {
		return err
	}
	after, err := os.Lstat(dir)
	if err == nil && !after.ModTime().Equal(k.modified) {
		return fs.ErrNotExist
	}
	k.listed = long
	return err
}

func (k *packs) readAll(root string) error {
	names, _, err := packNames(root)
	if err != nil {
		return err
	}
	known := make(map[string]*pack, len(k.known.packs))
	for _, p := range k.known.packs {
		known[p.dir] = p
	}
	packs, changed := make([]*pack, 0, len(names)), len(names) != len(known)
	for _, path := range names {
		p := known[path]
		if p == nil {
			if p, err = readPack(path); err != nil {
				return err
			}
			changed = true
		}
		packs = append(packs, p)
	}
	if changed {
		k.known = k.known.with(packs)
	}
	return nil
}

// generationDigits are at the end of a pack's name. A pack that takes the place of another has
// the next number, so only one can, and the other does not count from then on.
const generationDigits = 6

func generation(name string) (series string, number int, ok bool) {
	if len(name) <= generationDigits {
		return "", 0, false
	}
	series = name[:len(name)-generationDigits]
	number, err := strconv.Atoi(name[len(series):])
	return series, number, err == nil && number >= 0
}

// packNames are the paths of the packs, of those that others have replaced, and of what else
// lies there.
func packNames(root string) (packs, others []string, err error) {
	dir := filepath.Join(root, filepath.FromSlash(packsDir))
	entries, err := os.ReadDir(dir) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	last := ""
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		series, _, ok := generation(e.Name())
		if !ok || !e.IsDir() {
			others = append(others, path)
			continue
		}
		if series == last {
			others = append(others, packs[len(packs)-1])
			packs = packs[:len(packs)-1]
		}
		packs, last = append(packs, path), series
	}
	return packs, others, nil
}

// inPacks calls do for each copy of a blob in packs until an error. It is ErrNotFound if there
// is none. A copy is none whose pack is gone: do returns fs.ErrNotExist. With known, packs that
// others have made lately may be missed.
func (d *Directory) inPacks(digest spec.Digest, known bool, do func(p *pack, at packed) error) error {
	name, err := raw(digest)
	if err != nil {
		return err
	}
	const tries = 100 // a pack may be replaced as soon as it is listed
	for try := range tries {
		set, err := d.packs.list(d, try > 0)
		if err != nil {
			return err
		}
		found, gone := false, false
		err = set.each(name, func(p *pack, at packed) error {
			err := do(p, at)
			if errors.Is(err, fs.ErrNotExist) {
				gone = true
				return nil
			}
			found = found || err == nil
			return err
		})
		if found || err != nil {
			return err
		}
		if !gone && (try > 0 || known) {
			break
		}
	}
	return ErrNotFound
}
