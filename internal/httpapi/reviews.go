package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/safetext"
)

// The bounds of a difference.
const (
	maxDiffFiles = 1000
	maxDiffBytes = 4 << 20
)

// diffInput says what is compared.
type diffInput struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	Which   string   `query:"which" maxLength:"300" doc:"a phase, whose changes are compared, or PHASE..PHASE; left out: the session's start and its newest tree"`
	With    string   `query:"with" maxLength:"400" doc:"OTHER[:PHASE]: another session to compare with"`
	Stat    bool     `query:"stat" doc:"leave out the texts"`
	Binary  bool     `query:"binary" doc:"include the content of binary files"`
	Paths   []string `query:"path,explode" maxItems:"100" doc:"a file, directory or pattern; repeatable"`
}

func (in diffInput) compared() control.DiffInput {
	return control.DiffInput{
		Session: in.Session, Which: in.Which, With: in.With, Stat: in.Stat, Binary: in.Binary, Paths: in.Paths,
		MaxFiles: maxDiffFiles, MaxBytes: maxDiffBytes,
	}
}

// fileDiffInput names one file of what is compared.
type fileDiffInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Which   string `query:"which" maxLength:"300" doc:"as for the whole difference"`
	With    string `query:"with" maxLength:"400" doc:"as for the whole difference"`
	Path    string `query:"path" required:"true" maxLength:"1024" doc:"the file"`
}

// fileInput names a file of a session's newest tree.
type fileInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Path    string `query:"path" required:"true" maxLength:"1024" doc:"the file"`
}

// archiveInput says which files are put into an archive.
type archiveInput struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	Format  string   `query:"format" enum:"tar.gz,zip" default:"tar.gz"`
	Paths   []string `query:"path,explode" maxItems:"100" doc:"a file, directory or pattern; repeatable"`
}

// bundleInput says what of a result is put into an archive for another host.
type bundleInput struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	Tree    bool     `query:"tree" doc:"the files of the newest tree; otherwise those that the session has changed, as they were and as they are"`
	Paths   []string `query:"path,explode" maxItems:"100" doc:"a file, directory or pattern of the tree; repeatable"`
}

// patchInput says which changes are put into a patch.
type patchInput struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	Partial bool     `query:"partial" doc:"also of a result that is not whole; otherwise that is a conflict"`
	Paths   []string `query:"path,explode" maxItems:"100" doc:"a file, directory or pattern; repeatable"`
}

func reviews(api huma.API, r control.Reviews) {
	register(api, operation("GET /sessions/{session}/diff", "diff-session", "Compare a session's files with its start, another phase or another session"),
		func(ctx context.Context, in *diffInput) (control.Diff, error) { return r.Diff(ctx, in.compared()) })
	register(api, operation("GET /sessions/{session}/diff/file", "diff-file", "Compare one file; both texts are returned"),
		func(ctx context.Context, in *fileDiffInput) (control.FileDiff, error) {
			return r.DiffFile(ctx, control.DiffInput{Session: in.Session, Which: in.Which, With: in.With}, in.Path)
		})
	register(api, operation("GET /sessions/{session}/artifacts", "list-artifacts", "List the files that a session's assignments created or changed"),
		func(ctx context.Context, in *ofSession) (control.Artifacts, error) {
			return r.Artifacts(ctx, in.Session)
		})
	registerDownload(api, operation("GET /sessions/{session}/file", "read-file", "Read a file of a session's newest tree"), "application/octet-stream",
		func(ctx context.Context, in *fileInput) (download, error) {
			f, err := r.File(ctx, in.Session, in.Path)
			return download{path.Base(f.Path), f.Size, func(ctx context.Context, w io.Writer) error { return f.WriteTo(ctx, w) }}, err
		})
	registerDownload(api, operation("GET /sessions/{session}/archive", "archive-session", "Get a session's files as an archive"), "application/octet-stream",
		func(_ context.Context, in *archiveInput) (download, error) {
			return download{in.Session + "." + in.Format, 0, func(ctx context.Context, w io.Writer) error {
				_, err := r.Archive(ctx, in.Session, in.Format, in.Paths, w)
				return err
			}}, nil
		})
	registerDownload(api, operation("GET /sessions/{session}/bundle", "bundle-session", "Get a session's result for another host: a tar.gz archive with result.json, and the manifests and files as objects named by their SHA-256"), "application/octet-stream",
		func(_ context.Context, in *bundleInput) (download, error) {
			return download{in.Session + ".bundle.tar.gz", 0, func(ctx context.Context, w io.Writer) error {
				_, err := r.Bundle(ctx, in.Session, control.BundleInput{Tree: in.Tree, Paths: in.Paths}, w)
				return err
			}}, nil
		})
	registerDownload(api, operation("GET /sessions/{session}/patch", "patch-session", "Get a session's changes as a patch for `git apply`"), "text/x-diff",
		func(_ context.Context, in *patchInput) (download, error) {
			return download{in.Session + ".patch", 0, func(ctx context.Context, w io.Writer) error {
				_, err := r.Patch(ctx, in.Session, in.Paths, in.Partial, w)
				return err
			}}, nil
		})
}

// download is a stream of bytes.
type download struct {
	name string
	// size is in bytes; zero: unknown.
	size int64
	// write writes the bytes. After an error, what was written must not be used.
	write func(context.Context, io.Writer) error
}

// registerDownload adds an operation whose answer is a stream.
func registerDownload[I any](api huma.API, op huma.Operation, contentType string, f func(context.Context, *I) (download, error)) {
	op.Responses = map[string]*huma.Response{"200": {
		Description: "the bytes",
		Content:     map[string]*huma.MediaType{contentType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
	}}
	huma.Register(api, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		d, err := f(ctx, in)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			w, _ := hctx.BodyWriter().(http.ResponseWriter)
			d.send(hctx.Context(), w, contentType)
		}}, nil
	})
}

// send sends a download. An error before the first byte is a problem document; one after it
// ends the connection, so that nobody takes what has come for the whole.
func (d download) send(ctx context.Context, w http.ResponseWriter, contentType string) {
	out := &lateHeader{ResponseWriter: w, set: func(h http.Header) {
		h.Set("Content-Type", contentType)
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": safetext.Portable(d.name)}))
		h.Set("X-Content-Type-Options", "nosniff")
		if d.size > 0 {
			h.Set("Content-Length", strconv.FormatInt(d.size, 10))
		}
	}}
	err := d.write(ctx, out)
	var failed *problem
	switch {
	case err == nil:
		_, _ = out.Write(nil) // the headers of an empty stream
	case !out.begun && errors.As(problemOf(ctx, err), &failed):
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(failed.Status)
		_ = json.NewEncoder(w).Encode(failed)
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
