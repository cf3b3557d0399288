package control

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// earliest is the time of an archive's files: equal trees have equal archives.
var earliest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// ArchiveInput selects the files of an archive.
type ArchiveInput struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	Paths   []string `query:"path,explode" maxItems:"100" doc:"a file, directory or pattern; repeatable"`
}

// Archive is files of a session's newest tree as a tar.gz archive, below a directory that has
// the session's name. Names are [safetext.Portable].
func (r Reviews) Archive(ctx context.Context, in ArchiveInput) (Download, error) {
	k, err := r.kept(ctx, in.Session)
	if err != nil {
		return Download{}, err
	}
	m, err := k.store.Content.Manifest(ctx, k.Tree)
	if err != nil {
		return Download{}, err
	}
	selected, err := m.Select(in.Paths)
	if err != nil {
		return Download{}, unselected(err, in.Paths)
	}
	named := func(p string) string { return safetext.Portable(in.Session + "/" + p) }
	return Download{Name: in.Session + ".tar.gz", WriteTo: func(ctx context.Context, w io.Writer) error {
		return writeTar(ctx, k.store.Content, named, safetext.Portable, m, selected, w)
	}}, nil
}

// writeTar writes files under the names that named gives to their paths, and linked to the targets of links.
func writeTar(ctx context.Context, content *cas.Store, named, linked func(string) string, m cas.Manifest, paths []string,
	w io.Writer,
) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	for _, p := range paths {
		e := m[p]
		h := tar.Header{
			Typeflag: tar.TypeReg, Name: named(p), Size: e.Size, Mode: 0o644, ModTime: earliest, Format: tar.FormatPAX,
		}
		if e.Executable {
			h.Mode = 0o755
		}
		if e.Link != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, linked(e.Link), 0
		}
		if err := archive.WriteHeader(&h); err != nil {
			return err
		}
		if e.Link == "" {
			if _, err := content.CopyBlob(ctx, e.SHA256, archive); err != nil {
				return err
			}
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}
