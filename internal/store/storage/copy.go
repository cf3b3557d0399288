package storage

import (
	"context"
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
	// The types are hidden: files would copy themselves by another way, past the buffer and the context.
	return io.CopyBuffer(struct{ io.Writer }{w}, cancelled{ctx, r}, buf)
}

// cancelled is a reader until its context is cancelled.
type cancelled struct {
	ctx context.Context //nolint:containedctx // the struct lives for one call
	r   io.Reader
}

func (c cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
