package cas

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/spec"
)

// stamp identifies one state of a file's content without reading it.
type stamp struct {
	Device, Inode uint64
	// Size is in bytes; the times are in nanoseconds.
	Size, Modified, Changed int64
}

// sameFile reports whether both stamps are of the same file.
func (s stamp) sameFile(o stamp) bool { return s.Device == o.Device && s.Inode == o.Inode }

// text encodes the stamp.
func (s stamp) text() string {
	b := strconv.AppendUint(make([]byte, 0, 80), s.Device, 10)
	b = strconv.AppendUint(append(b, ','), s.Inode, 10)
	for _, n := range []int64{s.Size, s.Modified, s.Changed} {
		b = strconv.AppendInt(append(b, ','), n, 10)
	}
	return string(b)
}

// clock is a time of the kernel's clock for file times, in nanoseconds; zero: unknown.
type clock int64

// isAfter reports whether the clock is later than the last change of the stamp. Then the stamp
// identifies the content: a change after the clock was read gives the file a later time.
func (c clock) isAfter(s stamp) bool { return c != 0 && s.Changed != 0 && s.Changed < int64(c) }

// stamps are the files and links of a directory as the last snapshot found them, so that the next one reads
// only those that have changed. They are a cache.
type stamps struct {
	// manifest is the tree of that snapshot. While it is in the store, the files' contents are, too.
	manifest spec.Digest
	// whole: no file or link of the tree is missing here.
	whole bool
	files map[string]stamped
}

// stamped is a file's digest, empty for a link, and the stamp for which it holds, encoded.
type stamped struct {
	digest spec.Digest
	stamp  string
}

// digest returns the digest of a file; ok is false if its stamp has changed.
func (s stamps) digest(p string, now dirItem) (spec.Digest, bool) {
	f, ok := s.files[p]
	if !ok || f.stamp != now.text() {
		return "", false
	}
	return f.digest, true
}

// match reports whether a scan found exactly these files, unchanged.
func (s stamps) match(all []found) bool {
	return s.whole && len(s.files) == len(all) && !slices.ContainsFunc(all, func(f found) bool { return !f.stampValid })
}

// stampFiles keeps the stamps of directories of this host in files; without a directory for them
// it keeps none.
type stampFiles struct{ dir string }

const stampsMagic = "maestro.stamps/v1"

func (f stampFiles) path(dir string) string {
	return filepath.Join(f.dir, string(DigestOf([]byte(dir))))
}

// loadStamps returns the stamps of a directory, if they are intact and usable with these blobs.
func (s *Store) loadStamps(dir string) stamps {
	if s.stampFiles.dir == "" {
		return stamps{}
	}
	data, err := os.ReadFile(s.path(dir))
	if err != nil {
		return stamps{}
	}
	known := decodeStamps(string(data))
	// If the manifest was pruned, its contents may be missing. UseBlob marks it as used, so that
	// it and its contents cannot be pruned now.
	if known.manifest == "" || s.backend.UseBlob(known.manifest) != nil {
		return stamps{}
	}
	return known
}

// save writes the stamps of a directory. Errors are ignored: without stamps everything is read.
func (f stampFiles) save(dir string, s stamps) {
	if f.dir == "" {
		return
	}
	// Do not create parent directories: if the store is not mounted, they would fill its mount
	// point.
	if err := os.Mkdir(f.dir, dirMode); err == nil || os.IsExist(err) {
		_ = os.WriteFile(f.path(dir), []byte(s.encode()), fileMode)
	}
}

// drop removes all stamps after a blob was found missing. Otherwise they could prevent that it is
// stored again.
func (f stampFiles) drop() { _ = os.RemoveAll(f.dir) }

// encode writes a head with a checksum, and a line for each file: digest, stamp and path.
func (s stamps) encode() string {
	var b strings.Builder
	b.WriteString(string(s.manifest) + "\t" + strconv.FormatBool(s.whole) + "\n")
	for p, f := range s.files {
		b.WriteString(string(f.digest) + "\t" + f.stamp + "\t" + p + "\n")
	}
	return stampsMagic + "\t" + string(DigestOf([]byte(b.String()))) + "\n" + b.String()
}

// decodeStamps decodes stamps; they are empty if the data is not complete and intact.
func decodeStamps(data string) stamps {
	head, body, _ := strings.Cut(data, "\n")
	if head != stampsMagic+"\t"+string(DigestOf([]byte(body))) {
		return stamps{}
	}
	tree, lines, _ := strings.Cut(body, "\n")
	manifest, whole, _ := strings.Cut(tree, "\t")
	s := stamps{spec.Digest(manifest), whole == "true", make(map[string]stamped, strings.Count(lines, "\n"))}
	for line := range strings.Lines(lines) {
		digest, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		stamp, p, _ := strings.Cut(rest, "\t")
		s.files[p] = stamped{spec.Digest(digest), stamp}
	}
	return s
}

// splitPath returns the directory of a path, "." for the top, and the name in it.
func splitPath(p string) (dir, name string) {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i], p[i+1:]
	}
	return ".", p
}
