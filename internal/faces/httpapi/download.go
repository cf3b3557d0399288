package httpapi

import (
	"context"
	"mime"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

func (o Download[I]) register(s *server) {
	op := o.described()
	op.Responses = answers("the bytes", o.ContentType, binary())
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		d, err := o.Do(ctx, s.base, *in)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			w, _ := hctx.BodyWriter().(http.ResponseWriter)
			send(hctx.Context(), w, d, o.ContentType)
		}}, nil
	})
}

// send sends a download. An error before the first byte is a problem document; one after it
// ends the connection, so that nobody takes what has come for the whole.
func send(ctx context.Context, w http.ResponseWriter, d control.Download, contentType string) {
	out := &lateHeader{ResponseWriter: w, set: func(h http.Header) {
		h.Set("Content-Type", contentType)
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": safetext.Portable(d.Name)}))
		h.Set("X-Content-Type-Options", "nosniff")
		if d.Size > 0 {
			h.Set("Content-Length", strconv.FormatInt(d.Size, 10))
		}
	}}
	err := d.WriteTo(ctx, out)
	switch {
	case err == nil:
		_, _ = out.Write(nil) // the headers of an empty stream
	case !out.begun:
		problemOf(ctx, err).write(w)
	default:
		panic(http.ErrAbortHandler)
	}
}

// lateHeader sets the headers of a stream with its first byte.
type lateHeader struct {
	http.ResponseWriter
	set   func(http.Header)
	begun bool
}

// Write implements [io.Writer].
func (l *lateHeader) Write(p []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.set(l.Header())
		l.WriteHeader(http.StatusOK)
	}
	return l.ResponseWriter.Write(p)
}
