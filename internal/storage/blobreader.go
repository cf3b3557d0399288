package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/spec"
)

// blobReader reads many blobs. It opens each pack only once.
type blobReader struct {
	*Directory
	// cachedPacks: use the packs that this process knows of; newer packs of other processes may
	// be missed.
	cachedPacks bool
	mu          sync.Mutex
	open        map[*pack]*os.File
	// windows are the read-ahead windows that no goroutine uses now.
	windows []*window
}

// BlobReader implements [Blobs].
func (d *Directory) BlobReader() BlobReader { return d.reader(false) }

func (d *Directory) reader(cachedPacks bool) *blobReader {
	return &blobReader{Directory: d, cachedPacks: cachedPacks, open: map[*pack]*os.File{}}
}

// OpenBlob implements [BlobReader]. The result is an [*os.File] unless the blob is packed.
func (r *blobReader) OpenBlob(digest spec.Digest) (io.ReadCloser, error) {
	if content, err := r.openPacked(digest, true); !errors.Is(err, ErrNotFound) {
		return content, err
	}
	path := r.blobFile(digest)
	err := unix.Access(path, unix.F_OK) // for a missing file, three times as fast as opening it
	if err == nil {
		var f *os.File
		if f, err = openFile(path); err == nil {
			return f, nil
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.cachedPacks {
		return nil, ErrNotFound
	}
	return r.openPacked(digest, false)
}

func (r *blobReader) openPacked(digest spec.Digest, cached bool) (content io.ReadCloser, err error) {
	err = r.inPacks(digest, cached, func(p *pack, at packed) error {
		if content != nil {
			return nil
		}
		data, err := r.dataOf(p)
		if err == nil {
			content = io.NopCloser(io.NewSectionReader(data, at.offset, int64(at.size)))
		}
		return err
	})
	return content, err
}

// ReadBlob implements [BlobReader].
func (r *blobReader) ReadBlob(digest spec.Digest, into []byte) (n int, err error) {
	read := false
	err = r.inPacks(digest, true, func(p *pack, at packed) error {
		if read {
			return nil
		}
		data, err := r.dataOf(p)
		if err != nil {
			return err
		}
		read = true
		if at.size >= len(into) {
			return io.ErrShortBuffer
		}
		w := r.takeWindow(p, at)
		defer r.returnWindow(w)
		n, err = w.read(data, into[:at.size], at)
		return err
	})
	if !errors.Is(err, ErrNotFound) {
		return n, err
	}
	f, err := r.OpenBlob(digest)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	n, err = io.ReadFull(f, into)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, nil
	case err == nil:
		return 0, io.ErrShortBuffer
	}
	return 0, err
}

func (r *blobReader) dataOf(p *pack) (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.open[p]; ok {
		return f, nil
	}
	f, err := openFile(p.data())
	if err == nil {
		r.open[p] = f
	}
	return f, err
}

// Close implements [BlobReader].
func (r *blobReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.open {
		_ = f.Close() // only read
	}
	clear(r.open)
	r.windows = nil
	return nil
}

// windowSize is the size of a read-ahead window, in bytes.
const windowSize = maxPacked

// window is a part of a pack's data that was read at once. Blobs that were stored together are
// often read together, in the order of their offsets.
type window struct {
	in   *pack
	from int64
	data []byte
	// next is the end of the last read.
	next int64
}

// takeWindow returns a window that contains the entry or ends shortly before it, or else a new
// one. The caller must return it with returnWindow.
func (r *blobReader) takeWindow(p *pack, at packed) *window {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range r.windows {
		if w.in == p && w.near(at) {
			r.windows = slices.Delete(r.windows, i, i+1)
			return w
		}
	}
	return &window{in: p, next: -windowSize}
}

// maxWindows is the largest number of unused windows of a reader.
const maxWindows = 8

func (r *blobReader) returnWindow(w *window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows = append(r.windows, w)
	if len(r.windows) > maxWindows {
		r.windows = slices.Delete(r.windows, 0, 1)
	}
}

func (w *window) has(at packed) bool {
	return at.offset >= w.from && at.offset+int64(at.size) <= w.from+int64(len(w.data))
}

func (w *window) near(at packed) bool {
	return w.has(at) || at.offset >= w.next && at.offset-w.next < windowSize/2
}

// read reads an entry from the window, or from the data. If the data is too short, it returns
// fewer bytes than the entry has; the digest then does not match.
func (w *window) read(data *os.File, into []byte, at packed) (n int, err error) {
	follows := w.near(at)
	w.next = at.offset + int64(at.size)
	if !w.has(at) {
		if !follows || at.size > windowSize/4 {
			n, err = data.ReadAt(into, at.offset)
			return n, ignoreEOF(err)
		}
		if w.data == nil {
			w.data = make([]byte, windowSize)
		}
		w.from = at.offset
		n, err = data.ReadAt(w.data[:windowSize], at.offset)
		w.data = w.data[:n]
		if err = ignoreEOF(err); err != nil {
			return 0, err
		}
	}
	return copy(into, w.data[at.offset-w.from:]), nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
