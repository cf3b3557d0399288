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

// packSet is an immutable set of packs.
type packSet struct {
	packs []*pack
	// entries refers to each entry of each pack, sorted by prefix. So the cost of finding a blob
	// does not depend on the number of packs.
	entries []entryRef
}

// entryRef refers to an entry of a pack. prefix is the beginning of its digest.
type entryRef struct {
	prefix uint64
	in     *pack
	entry  int
}

func prefix(digest []byte) uint64 { return binary.BigEndian.Uint64(digest) }

// eachCopy calls do for each copy of a blob, until an error.
func (s *packSet) eachCopy(digest rawDigest, do func(p *pack, at packed) error) error {
	begin := prefix(digest[:])
	i := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].prefix >= begin })
	for ; i < len(s.entries) && s.entries[i].prefix == begin; i++ {
		p := s.entries[i].in
		if e := p.at(s.entries[i].entry); e.digest == digest {
			if err := do(p, e.packed); err != nil {
				return err
			}
		}
	}
	return nil
}

// with returns a set of these packs. It reuses the sorted entries of packs that are in s, too.
func (s *packSet) with(packs []*pack) *packSet {
	stays := make(map[*pack]bool, len(packs))
	for _, p := range packs {
		stays[p] = true
	}
	had := make(map[*pack]bool, len(s.packs))
	for _, p := range s.packs {
		had[p] = true
	}
	var added []entryRef
	for _, p := range packs {
		for i := 0; !had[p] && i < p.len(); i++ {
			added = append(added, entryRef{prefix(p.entries[i*packEntry:]), p, i})
		}
	}
	slices.SortFunc(added, func(a, b entryRef) int { return cmp.Compare(a.prefix, b.prefix) })
	where := make([]entryRef, 0, len(s.entries)+len(added))
	for _, old := range s.entries {
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

// settled is how old the modification time of the packs' directory must be when the directory is
// listed. Then any later change gives it another time.
const settled = 2 * time.Second

// packCache caches the packs that this process knows of.
type packCache struct {
	mu    sync.Mutex
	known *packSet
	// modified is the last modification time of the packs' directory, and seen is when it was
	// first observed.
	modified, seen time.Time
	// listed: the directory was listed when modified was older than settled, so the list is
	// complete.
	listed bool
}

// list returns the cached packs; with reload, it updates the cache first.
func (k *packCache) list(d *Directory, reload bool) (*packSet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = &packSet{}
	}
	if !reload {
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

// read reads new packs if the directory may have changed. The error is fs.ErrNotExist if the
// packs changed during the call, so that the listing may be incomplete.
func (k *packCache) read(d *Directory) error {
	dir := filepath.Join(d.root, filepath.FromSlash(packsDir))
	before, err := statDirectory(dir)
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

func (k *packCache) readAll(root string) error {
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

// generationDigits is the number of digits at the end of a pack's name. A pack's replacement has
// the next number. So only one process can replace a pack, and the pack with the lower number is
// ignored from then on.
const generationDigits = 6

func generation(name string) (series string, number int, ok bool) {
	if len(name) <= generationDigits {
		return "", 0, false
	}
	series = name[:len(name)-generationDigits]
	number, err := strconv.Atoi(name[len(series):])
	return series, number, err == nil && number >= 0
}

// packNames returns the paths of the packs, and of everything else in their directory: replaced
// packs and other files.
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

// inPacks calls do for each copy of a blob in packs until an error. The error is ErrNotFound if
// there is none. If a copy's pack was removed, do returns fs.ErrNotExist, and the copy does not
// count. With cached, recent packs of other processes may be missed.
func (d *Directory) inPacks(digest spec.Digest, cached bool, do func(p *pack, at packed) error) error {
	name, err := parseDigest(digest)
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
		err = set.eachCopy(name, func(p *pack, at packed) error {
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
		if !gone && (try > 0 || cached) {
			break
		}
	}
	return ErrNotFound
}

// statDirectory describes a directory. It opens it, because a network file system may otherwise answer
// from a cache that is a minute old.
func statDirectory(dir string) (_ os.FileInfo, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer closing(f, &err)
	return f.Stat()
}
