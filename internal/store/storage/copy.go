package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Copy copies r to w until r ends or the context is cancelled. It returns the number of bytes and their digest.
func Copy(ctx context.Context, w io.Writer, r io.Reader) (n int64, digest spec.Digest, err error) {
	h := sha256.New()
	n, err = io.Copy(io.MultiWriter(h, w), cancelled{ctx, r})
	return n, spec.Digest(hex.EncodeToString(h.Sum(nil))), err
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
