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

// blobReader reads many blobs. It opens each pack once.
type blobReader struct {
	*Directory
	// known: packs that others have made since the reader was made may be missed.
	known bool
	mu    sync.Mutex
	open  map[*pack]*os.File
	// ahead are the windows that no goroutine reads from now.
	ahead []*window
}

// BlobReader implements [Blobs].
func (d *Directory) BlobReader() BlobReader { return d.reader(false) }

func (d *Directory) reader(known bool) *blobReader {
	return &blobReader{Directory: d, known: known, open: map[*pack]*os.File{}}
}

// OpenBlob implements [BlobReader]. What it returns of a blob that is not packed is a file.
func (r *blobReader) OpenBlob(digest spec.Digest) (io.ReadCloser, error) {
	if content, err := r.openPacked(digest, true); !errors.Is(err, ErrNotFound) {
		return content, err
	}
	path := r.blobFile(digest)
	err := unix.Access(path, unix.F_OK) // takes a third of opening what is not there
	if err == nil {
		var f *os.File
		if f, err = openFile(path); err == nil {
			return f, nil
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.known {
		return nil, ErrNotFound
	}
	return r.openPacked(digest, false)
}

func (r *blobReader) openPacked(digest spec.Digest, known bool) (content io.ReadCloser, err error) {
	err = r.inPacks(digest, known, func(p *pack, at packed) error {
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
		w := r.window(p, at)
		defer r.release(w)
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
	r.ahead = nil
	return nil
}

// windowSize is how much is read ahead, in bytes.
const windowSize = maxPacked

// window is a part of a pack's data that was read at once. Blobs that were stored together are
// often read together, in the order in which they lie there.
type window struct {
	in   *pack
	from int64
	data []byte
	// next is the end of what was read last.
	next int64
}

// window returns one that has an entry, or ended shortly before it. It must be released.
func (r *blobReader) window(p *pack, at packed) *window {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range r.ahead {
		if w.in == p && w.near(at) {
			r.ahead = slices.Delete(r.ahead, i, i+1)
			return w
		}
	}
	return &window{in: p, next: -windowSize}
}

// mostAhead is how many windows a reader has at most beside those in use.
const mostAhead = 8

func (r *blobReader) release(w *window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead = append(r.ahead, w)
	if len(r.ahead) > mostAhead {
		r.ahead = slices.Delete(r.ahead, 0, 1)
	}
}

func (w *window) has(at packed) bool {
	return at.offset >= w.from && at.offset+int64(at.size) <= w.from+int64(len(w.data))
}

func (w *window) near(at packed) bool {
	return w.has(at) || at.offset >= w.next && at.offset-w.next < windowSize/2
}

// read reads an entry from the window, or from the data. It returns less than the entry's size
// where the data ends: that shows in the digest.
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
