package storage

import (
	"context"
	"errors"
	"io"
	"sync"
)

// BufferSize is the unit in which files are read and written, in bytes. A smaller file is
// handled in memory.
const BufferSize = 256 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, BufferSize); return &b }}

// Buffer returns a buffer of [BufferSize] from a pool. The caller returns it with release.
func Buffer() (buf []byte, release func()) {
	b := buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	return *b, func() { buffers.Put(b) }
}

// Copy copies r to w until r ends or the context is cancelled.
func Copy(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	buf, release := Buffer()
	defer release()
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			total += int64(n)
			if _, err := w.Write(buf[:n]); err != nil {
				return total, err
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}
