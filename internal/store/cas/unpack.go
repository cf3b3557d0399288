package cas

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/maestro-hive/maestro/internal/store/storage"
)

// ErrNoArchive says that a file is not an archive that Unpack can read.
var ErrNoArchive = errors.New("not a readable archive; make a tar, tar.gz or zip file")

// archiveEntry is an entry of an archive.
type archiveEntry struct {
	name string
	mode fs.FileMode
	link string
	// odd is why it is left out; empty: it is not.
	odd  string
	open func() (io.ReadCloser, error)
}

// Unpack writes the files and links of an archive (tar, tar.gz or zip) into an empty directory. It returns the entries that
// it has left out, with the reasons, because no tree could hold them: a path that is absolute or leads out, an entry below
// a link or a file, a path that occurs twice, a device. A [*RefusedError] names the entry that exceeds the limits of all
// files together. Links are created as they are, and nothing is written through them. The archive may be hostile: the
// sizes that it states are not trusted.
func Unpack(ctx context.Context, archive *os.File, dir string, l Limits) (left []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer closing(root, &err)
	u := &unpacking{ctx: ctx, root: root, limits: l.WithDefaults(), kinds: map[string]bool{}}
	err = u.archive(archive)
	u.left.sort()
	return u.left.odd, err
}

func (u *unpacking) archive(archive *os.File) error {
	start := make([]byte, 4)
	if _, err := io.ReadFull(archive, start); err != nil {
		return ErrNoArchive
	}
	if bytes.HasPrefix(start, []byte("PK")) {
		return u.zip(archive)
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if !bytes.HasPrefix(start, []byte{0x1f, 0x8b}) {
		return u.tar(archive)
	}
	plain, err := gzip.NewReader(bufio.NewReader(archive))
	if err != nil {
		return ErrNoArchive
	}
	return u.tar(plain)
}

// unpacking writes the entries of one archive.
type unpacking struct {
	ctx    context.Context //nolint:containedctx // the struct lives for one call
	root   *os.Root
	limits Limits
	// kinds are the paths so far; true: a directory.
	kinds   map[string]bool
	entries int
	bytes   int64
	left    leftOut
}

func (u *unpacking) tar(r io.Reader) error {
	// Headers take space, too. The limit ends a stream that has nothing else.
	most := &io.LimitedReader{R: r, N: u.limits.TreeBytes + int64(u.limits.Files)*4<<10}
	archive := tar.NewReader(most)
	for first := true; ; first = false {
		h, err := archive.Next()
		switch {
		case most.N <= 0:
			return treeTooLarge("the archive", u.limits.TreeBytes)
		case errors.Is(err, io.EOF) && !first:
			return nil
		case err != nil && first:
			return ErrNoArchive
		case err != nil:
			return fmt.Errorf("%w: %w", ErrNoArchive, err)
		}
		e := archiveEntry{
			name: h.Name, mode: h.FileInfo().Mode(), link: h.Linkname,
			open: func() (io.ReadCloser, error) { return io.NopCloser(archive), nil },
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeLink:
			e.odd = "is a hard link; archive it as a file, with tar --hard-dereference"
		}
		if err := u.entry(e); err != nil {
			return err
		}
	}
}

// directoryEntry is the signature of an entry in a zip archive's directory.
var directoryEntry = []byte("PK\x01\x02")

func (u *unpacking) zip(f *os.File) error {
	size, err := u.countEntries(f)
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(f, size)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoArchive, err)
	}
	for _, file := range archive.File {
		e := archiveEntry{name: file.Name, mode: file.Mode(), open: file.Open}
		if strings.Contains(file.Name, `\`) {
			e.odd = "has a backslash; archive it with / between directories"
		}
		if e.mode&fs.ModeSymlink != 0 {
			if e.link, err = target(file); err != nil {
				return err
			}
		}
		if err := u.entry(e); err != nil {
			return err
		}
	}
	return nil
}

// countEntries returns the size of the archive. It returns an error if the archive's directory
// would need too much memory.
func (u *unpacking) countEntries(f *os.File) (size int64, err error) {
	if size, err = f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	n, r := 0, bufio.NewReader(f)
	for {
		skipped, err := r.ReadSlice('P')
		size += int64(len(skipped))
		if err == nil {
			if next, _ := r.Peek(3); bytes.Equal(next, directoryEntry[1:]) {
				n++
			}
		}
		switch {
		case n > 2*u.limits.Files: // some may belong to archives inside the archive
			return 0, u.tooMany("the archive")
		case errors.Is(err, io.EOF):
			return size, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return 0, err
		}
	}
}

// target returns the target of a link in a zip archive.
func target(file *zip.File) (string, error) {
	r, err := file.Open()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoArchive, err)
	}
	defer r.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(r, MaxPath+1))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoArchive, err)
	}
	return string(text), nil
}

func (u *unpacking) tooMany(p string) error {
	return &RefusedError{p, fmt.Sprintf("exceeds the limit of %d files and directories; leave some out", u.limits.Files)}
}

// entry writes an entry, or leaves it out. Files of git itself are skipped.
func (u *unpacking) entry(e archiveEntry) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	if u.entries++; u.entries > u.limits.Files {
		return u.tooMany(e.name)
	}
	if e.odd != "" {
		u.left.cannotKeep(e.name, e.odd)
		return nil
	}
	p := strings.TrimPrefix(e.name, "./")
	if e.mode.IsDir() {
		p = strings.TrimRight(p, "/")
	}
	if p == "" || p == "." {
		return nil
	}
	for name := range strings.SplitSeq(p, "/") {
		if isGitDir(name) {
			return nil
		}
	}
	if err := CheckPath(p); err != nil {
		u.left.cannotKeep(e.name, "cannot be kept: "+err.Error())
		return nil
	}
	odd, err := u.makeParents(p)
	if err == nil && odd == "" {
		odd, err = u.make(p, e)
	}
	if odd != "" {
		u.left.cannotKeep(e.name, odd)
	}
	return err
}

// make writes an entry whose directory exists. odd says why it is left out.
func (u *unpacking) make(p string, e archiveEntry) (odd string, err error) {
	isDir, seen := u.kinds[p]
	if seen && (!isDir || !e.mode.IsDir()) {
		return "is in the archive twice; the first one is kept", nil
	}
	switch kind := e.mode.Type(); kind {
	case fs.ModeDir:
		if seen {
			return "", nil
		}
		u.kinds[p] = true
		return "", u.root.Mkdir(p, dirMode)
	case fs.ModeSymlink:
		u.kinds[p] = false
		if e.link == "" || len(e.link) > MaxPath || strings.ContainsRune(e.link, 0) {
			return fmt.Sprintf("is a link with an empty target, or one of more than %d bytes", MaxPath), nil
		}
		return "", u.root.Symlink(e.link, p)
	case 0:
		u.kinds[p] = false
		return u.file(p, e)
	default:
		return "is a " + kindOf(kind) + "; only files and links can be kept", nil
	}
}

// makeParents makes the directories above an entry. odd says why it is left out.
func (u *unpacking) makeParents(p string) (odd string, err error) {
	dir := path.Dir(p)
	if dir == "." {
		return "", nil
	}
	isDir, seen := u.kinds[dir]
	switch {
	case seen && isDir:
		return "", nil
	case seen:
		return fmt.Sprintf("lies below %q, which is a file or a link", dir), nil
	}
	if odd, err := u.makeParents(dir); odd != "" || err != nil {
		return odd, err
	}
	if u.entries++; u.entries > u.limits.Files {
		return "", u.tooMany(p)
	}
	u.kinds[dir] = true
	return "", u.root.Mkdir(dir, dirMode)
}

func (u *unpacking) file(p string, e archiveEntry) (odd string, err error) {
	mode := fileMode
	if e.mode&0o100 != 0 {
		mode = dirMode
	}
	content, err := e.open()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoArchive, err)
	}
	defer closing(content, &err)
	f, err := u.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", err
	}
	defer closing(f, &err)
	most := min(u.limits.FileBytes, u.limits.TreeBytes-u.bytes)
	n, _, err := storage.Copy(u.ctx, f, io.LimitReader(content, most+1))
	u.bytes += n
	_, ofHost := errors.AsType[*fs.PathError](err)
	switch {
	case ofHost, u.ctx.Err() != nil:
		return "", err
	case err != nil:
		return "", fmt.Errorf("%w: %q: %w", ErrNoArchive, p, err)
	case n > u.limits.FileBytes:
		u.bytes -= n
		return tooLarge(n, u.limits.FileBytes), u.root.Remove(p)
	case u.bytes > u.limits.TreeBytes:
		return "", treeTooLarge(p, u.limits.TreeBytes)
	}
	return "", nil
}
