package storage_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// packedStore is a store of blobs, as two processes have it, and what should be in it.
type packedStore struct {
	*testing.T
	dir   string
	views [2]storage.Storage
	// contents are all that there may be, found all that should be there, and damaged those of
	// them that are not as they were.
	contents [][]byte
	found    map[spec.Digest][]byte
	damaged  map[spec.Digest]bool
	random   *rand.Rand
}

func newPackedStore(t *testing.T, seed uint64) *packedStore {
	t.Helper()
	p := &packedStore{T: t, dir: t.TempDir(), found: map[spec.Digest][]byte{}, damaged: map[spec.Digest]bool{}, random: rand.New(rand.NewPCG(seed, 0))}
	p.views = [2]storage.Storage{open(t, p.dir), open(t, p.dir)}
	for i := range 900 {
		content := binary.LittleEndian.AppendUint64(nil, p.random.Uint64()) // nowhere else in a file
		p.contents = append(p.contents, bytes.Repeat(content, 1+i%300))
	}
	return p
}

func digest(content []byte) spec.Digest { return spec.Digest(storage.VersionOf(content)) }

func (p *packedStore) view() storage.Storage { return p.views[p.random.IntN(2)] }

// some are different contents.
func (p *packedStore) some(n int) [][]byte {
	p.random.Shuffle(len(p.contents), func(i, j int) { p.contents[i], p.contents[j] = p.contents[j], p.contents[i] })
	return p.contents[:n]
}

func (p *packedStore) putOne() {
	content := p.some(1)[0]
	made, err := p.view().PutBlob(digest(content), content, storage.Durability(p.random.IntN(2) == 0))
	require.NoError(p, err)
	if _, there := p.found[digest(content)]; there && made {
		require.True(p, p.damaged[digest(content)])
	}
	p.holds(content)
}

func (p *packedStore) holds(contents ...[]byte) {
	for _, content := range contents {
		p.found[digest(content)] = content
		delete(p.damaged, digest(content))
	}
}

func (p *packedStore) putMany() {
	contents := p.some(1 + p.random.IntN(500))
	b, err := p.view().NewBatch()
	require.NoError(p, err)
	for _, content := range contents {
		require.NoError(p, b.Put(digest(content), content))
	}
	if p.random.IntN(4) > 0 {
		require.NoError(p, b.Commit(p.Context()))
		p.holds(contents...)
	}
	require.NoError(p, b.Close())
}

func (p *packedStore) sweep() {
	gone := p.some(p.random.IntN(300))
	require.NoError(p, p.view().SweepBlobs(func(remove func(spec.Digest) error) error {
		for _, content := range gone {
			require.NoError(p, remove(digest(content)))
			delete(p.found, digest(content))
			delete(p.damaged, digest(content))
		}
		return nil
	}))
}

// damage changes a byte of all copies of a blob.
func (p *packedStore) damage() {
	for d, content := range p.found {
		for _, path := range p.files() {
			data, err := os.ReadFile(path)
			require.NoError(p, err)
			if at := bytes.Index(data, content); at >= 0 && !p.overlaps(data, at, content) {
				data[at+p.random.IntN(len(content))] ^= 1
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				require.NoError(p, err)
				_, err = f.WriteAt(data, 0)
				require.NoError(p, err)
				require.NoError(p, f.Close())
				p.damaged[d] = true
			}
		}
		return
	}
}

// overlaps reports whether what was found of a content belongs to a longer one.
func (p *packedStore) overlaps(data []byte, at int, content []byte) bool {
	return bytes.HasPrefix(data[at+len(content):], content[:8])
}

// files are those that have contents.
func (p *packedStore) files() (files []string) {
	for _, pattern := range []string{"blobs/packs/*/data", "blobs/sha256/*/*"} {
		found, err := filepath.Glob(filepath.Join(p.dir, pattern))
		require.NoError(p, err)
		files = append(files, found...)
	}
	return files
}

// check reads everything. What is damaged is moved away.
func (p *packedStore) check() {
	s := p.view()
	r := s.BlobReader()
	defer r.Close()
	for _, content := range p.contents {
		d := digest(content)
		f, err := r.OpenBlob(d)
		if _, there := p.found[d]; !there {
			require.ErrorIs(p, err, storage.ErrNotFound)
			continue
		}
		if p.damaged[d] && errors.Is(err, storage.ErrNotFound) { // moved away for a batch that was abandoned
			delete(p.damaged, d)
			delete(p.found, d)
			continue
		}
		require.NoError(p, err)
		data, err := io.ReadAll(f)
		require.NoError(p, err)
		require.NoError(p, f.Close())
		buf := make([]byte, storage.BufferSize)
		n, err := r.ReadBlob(d, buf)
		require.NoError(p, err)
		require.True(p, bytes.Equal(data, buf[:n]), "what is read into a buffer differs")
		if !p.damaged[d] {
			require.True(p, bytes.Equal(content, data))
			continue
		}
		require.False(p, bytes.Equal(content, data))
		moved, err := s.QuarantineBlob(p.Context(), d)
		require.NoError(p, err)
		kept, _, err := s.Read(moved)
		require.NoError(p, err)
		require.Equal(p, data, kept)
		delete(p.damaged, d)
		delete(p.found, d)
		if _, err := s.StatBlob(d); err == nil { // another copy was not damaged, or not looked at
			p.found[d] = content
			p.damaged[d] = !bytes.Equal(content, p.read(s, d))
		}
	}
}

func (p *packedStore) read(s storage.Storage, d spec.Digest) []byte {
	f, err := s.OpenBlob(d)
	require.NoError(p, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	require.NoError(p, err)
	return data
}

// TestPacksKeepWhatIsPut puts, sweeps and damages blobs at random, by two processes' views of
// one store.
func TestPacksKeepWhatIsPut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := newPackedStore(t, seed)
			for range 60 {
				[]func(){p.putOne, p.putMany, p.putMany, p.sweep, p.damage, p.check}[p.random.IntN(6)]()
			}
			p.check()
			p.check()
			var listed []spec.Digest
			require.NoError(t, p.view().ListBlobs(t.Context(),
				func(d spec.Digest) { listed = append(listed, d) },
				func(key, what string) { require.Fail(t, what, key) }))
			slices.Sort(listed)
			for _, d := range slices.Sorted(maps.Keys(p.found)) {
				require.Contains(t, listed, d)
			}
			left, err := os.ReadDir(filepath.Join(p.dir, "tmp"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// numbered returns different contents.
func numbered(from, to int) (contents [][]byte) {
	for i := from; i < to; i++ {
		contents = append(contents, fmt.Appendf(nil, "%01000d", i))
	}
	return contents
}

func putBatch(ctx context.Context, s storage.Storage, contents [][]byte) error {
	b, err := s.NewBatch()
	if err != nil {
		return err
	}
	defer b.Close()
	for _, content := range contents {
		if err := b.Put(digest(content), content); err != nil {
			return err
		}
	}
	return b.Commit(ctx)
}

func intact(t *testing.T, s storage.Storage, contents [][]byte) {
	t.Helper()
	p := &packedStore{T: t}
	for _, content := range contents {
		require.Equal(t, content, p.read(s, digest(content)))
	}
}

// TestADamagedIndexIsMadeAgain: whatever the index of a pack says, the contents are found, or
// those that it names wrongly are moved away; the rest is not concerned.
func TestADamagedIndexIsMadeAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	contents := numbered(0, 300)
	require.NoError(t, putBatch(t.Context(), open(t, dir), contents))
	path, err := filepath.Glob(filepath.Join(dir, "blobs/packs/*/index"))
	require.NoError(t, err)
	sound, err := os.ReadFile(path[0])
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(filepath.Dir(path[0]), "data"))
	require.NoError(t, err)
	damages := map[string][]byte{"gone": nil, "empty": {}, "cut": sound[:len(sound)/2], "header": sound[:10], "longer": append(bytes.Clone(sound), 0), "count": bytes.Clone(sound)}
	damages["count"][16]++
	damages["swapped"] = slices.Concat(sound[:24], sound[24+44:24+88], sound[24:24+44], sound[24+88:])
	for at := 24 + 44*7; at < 24+44*8; at++ {
		for _, bit := range []byte{1, 128} {
			flipped := bytes.Clone(sound)
			flipped[at] ^= bit
			damages[fmt.Sprintf("byte %d of an entry, bit %d", at-24-44*7, bit)] = flipped
		}
	}
	for what, index := range damages {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := &packedStore{T: t, dir: t.TempDir()}
			pack := filepath.Join(p.dir, "blobs/packs/one-000000")
			require.NoError(t, os.MkdirAll(pack, 0o700))
			if index != nil {
				require.NoError(t, os.WriteFile(filepath.Join(pack, "index"), index, 0o600))
			}
			require.NoError(t, os.WriteFile(filepath.Join(pack, "data"), data, 0o600))
			s := open(t, p.dir)
			faults := 0
			var named []spec.Digest
			require.NoError(t, s.ListBlobs(t.Context(), func(d spec.Digest) { named = append(named, d) }, func(string, string) { faults++ }))
			for _, d := range named {
				if digest(p.read(s, d)) != d {
					faults++
					_, err := s.QuarantineBlob(t.Context(), d)
					require.NoError(t, err)
				}
			}
			require.Equal(t, 1, faults, "it is noticed")
			for _, content := range contents {
				require.Equal(t, content, p.read(s, digest(content)))
			}
			require.NoError(t, open(t, p.dir).ListBlobs(t.Context(), func(d spec.Digest) { require.Equal(t, d, digest(p.read(s, d))) },
				func(key, what string) { require.Fail(t, what, key) }))
		})
	}
}

// TestATornPackHasWhatIsLeft: data that is cut short, that is no data, or that is gone.
func TestATornPackHasWhatIsLeft(t *testing.T) {
	t.Parallel()
	contents := numbered(0, 300)
	for _, left := range []int{0, 1, 1003, 1004, 1005, 150_000, 300 * 1004} {
		for _, noIndex := range []bool{false, true} {
			p := &packedStore{T: t, dir: t.TempDir()}
			s := open(t, p.dir)
			require.NoError(t, putBatch(t.Context(), s, contents))
			require.NoError(t, os.Truncate(p.files()[0], int64(left)))
			if noIndex {
				require.NoError(t, os.Truncate(filepath.Join(filepath.Dir(p.files()[0]), "index"), 0))
			}
			found := 0
			for _, view := range []storage.Storage{s, open(t, p.dir)} {
				for _, content := range contents {
					d := digest(content)
					if _, err := view.StatBlob(d); err != nil {
						require.ErrorIs(t, err, storage.ErrNotFound)
						continue
					}
					if !bytes.Equal(content, p.read(view, d)) {
						_, err := view.QuarantineBlob(t.Context(), d)
						require.NoError(t, err)
						_, err = view.StatBlob(d)
						require.ErrorIs(t, err, storage.ErrNotFound)
						continue
					}
					found++
				}
			}
			require.Equal(t, 2*(left/1004), found, left)
			require.NoError(t, putBatch(t.Context(), s, contents))
			intact(t, open(t, p.dir), contents)
		}
	}
}

// TestSweepingTakesNothingThatIsUsed: blobs are put together, put again and swept when they
// have not been used for a while, by views of their own.
func TestSweepingTakesNothingThatIsUsed(t *testing.T) {
	t.Parallel()
	const young = 500 * time.Millisecond
	dir, end := t.TempDir(), time.Now().Add(4*time.Second)
	var all, swept errgroup.Group
	done, removed := make(chan struct{}), 0
	swept.Go(func() error {
		for s := open(t, dir); ; {
			err := s.SweepBlobs(func(remove func(spec.Digest) error) error {
				horizon := time.Now().Add(-young)
				return s.ListBlobs(t.Context(), func(d spec.Digest) {
					if info, err := s.StatBlob(d); err == nil && info.Used.Before(horizon) {
						assert.NoError(t, remove(d))
						removed++
					}
				}, func(key, what string) { assert.Fail(t, what, key) })
			})
			select {
			case <-done:
				return err
			case <-time.After(young / 10):
			}
			if err != nil {
				return err
			}
		}
	})
	for n := range 3 {
		all.Go(func() error {
			p := &packedStore{T: t, random: rand.New(rand.NewPCG(1, uint64(n)))}
			for s := open(t, dir); time.Now().Before(end); {
				from := int(time.Until(end)/young) * 200
				contents := numbered(from+p.random.IntN(50), from+350)
				began := time.Now()
				if err := putBatch(t.Context(), s, contents); err != nil {
					return err
				}
				for _, content := range contents {
					found, err := s.StatBlob(digest(content))
					if time.Since(began) > young/2 {
						break // on a busy machine it may be swept by now
					}
					if err != nil || !bytes.Equal(content, p.read(s, digest(content))) {
						return fmt.Errorf("%+v: %w", found, err)
					}
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	close(done)
	require.NoError(t, swept.Wait())
	require.Positive(t, removed)
}
