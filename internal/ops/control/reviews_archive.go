package control

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// The formats of an archive.
const (
	TarGz = "tar.gz"
	Zip   = "zip"
)

// earliest is the time of an archive's files: equal trees have equal archives.
var earliest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// ArchiveInput selects the files of an archive.
type ArchiveInput struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	Format  string   `query:"format" enum:"tar.gz,zip" default:"tar.gz"`
	Paths   []string `query:"path,explode" maxItems:"100" doc:"a file, directory or pattern; repeatable"`
}

// Archive is files of a session's newest tree as an archive, below a directory that has
// the session's name. Names are [safetext.Portable].
func (r Reviews) Archive(ctx context.Context, in ArchiveInput) (Download, error) {
	if in.Format != TarGz && in.Format != Zip {
		return Download{}, invalidf("format", "unknown format; use %s or %s", TarGz, Zip)
	}
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
	write := writeZip
	if in.Format == TarGz {
		write = writeTar
	}
	named := func(p string) string { return safetext.Portable(in.Session + "/" + p) }
	return Download{Name: in.Session + "." + in.Format, WriteTo: func(ctx context.Context, w io.Writer) error {
		return write(ctx, k.store.Content, named, safetext.Portable, m, selected, w)
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
			Typeflag: tar.TypeReg, Name: named(p), Size: e.Size, Mode: int64(modeOf(e)), ModTime: earliest,
			Format: tar.FormatPAX,
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

func writeZip(ctx context.Context, content *cas.Store, named, linked func(string) string, m cas.Manifest, paths []string,
	w io.Writer,
) error {
	archive := zip.NewWriter(w)
	for _, p := range paths {
		e := m[p]
		h := zip.FileHeader{Name: named(p), Method: zip.Deflate, Modified: earliest}
		h.SetMode(modeOf(e))
		if e.Link != "" {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		file, err := archive.CreateHeader(&h)
		switch {
		case err != nil:
			return err
		case e.Link != "":
			_, err = io.WriteString(file, linked(e.Link))
		default:
			_, err = content.CopyBlob(ctx, e.SHA256, file)
		}
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

func modeOf(e cas.Entry) fs.FileMode {
	if e.Executable {
		return 0o755
	}
	return 0o644
}
