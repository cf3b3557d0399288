package cas_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/cas"
)

// entry is an entry of an archive in a test.
type entry struct {
	name, text string
	mode       fs.FileMode
	// kind is a type of tar's, if the mode does not say it.
	kind byte
}

func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm() | 0o600), Typeflag: tar.TypeReg, Size: int64(len(e.text))}
		switch {
		case e.kind != 0:
			h.Typeflag, h.Linkname, h.Size = e.kind, e.text, 0
		case e.mode.IsDir():
			h.Typeflag = tar.TypeDir
		case e.mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, e.text, 0
		}
		require.NoError(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := w.Write([]byte(e.text))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func zipOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode | 0o600)
		f, err := w.CreateHeader(h)
		require.NoError(t, err)
		_, err = f.Write([]byte(e.text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// unpack unpacks an archive below a new directory.
func unpack(t *testing.T, archive []byte, l cas.Limits) (dir string, left []string, err error) {
	t.Helper()
	above := t.TempDir()
	dir = filepath.Join(above, "tree")
	require.NoError(t, os.Mkdir(dir, 0o700))
	file := filepath.Join(above, "archive")
	require.NoError(t, os.WriteFile(file, archive, 0o600))
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	left, err = cas.Unpack(t.Context(), f, dir, l)
	around, listed := os.ReadDir(above)
	require.NoError(t, listed)
	require.Len(t, around, 2, "nothing is written beside the tree")
	return dir, left, err
}

func TestArchivesAreUnpacked(t *testing.T) {
	t.Parallel()
	entries := []entry{
		{name: "./", mode: fs.ModeDir},
		{name: "src/", mode: fs.ModeDir},
		{name: "src/run.sh", text: "#!/bin/sh\n", mode: 0o755},
		{name: "./deep/er/a.txt", text: "one\n"},
		{name: "deep/link", text: "er/a.txt", mode: fs.ModeSymlink},
		{name: ".git/config", text: "[core]"},
		{name: "empty"},
	}
	for kind, archive := range map[string][]byte{
		"tar": tarOf(t, entries...), "tar.gz": gzipped(t, tarOf(t, entries...)), "zip": zipOf(t, entries...),
	} {
		dir, left, err := unpack(t, archive, cas.Limits{})
		require.NoError(t, err, kind)
		require.Empty(t, left, kind)
		text, err := os.ReadFile(filepath.Join(dir, "deep/link"))
		require.NoError(t, err, kind)
		require.Equal(t, "one\n", string(text), kind)
		info, err := os.Stat(filepath.Join(dir, "src/run.sh"))
		require.NoError(t, err, kind)
		require.NotZero(t, info.Mode()&0o100, kind)
		require.FileExists(t, filepath.Join(dir, "empty"), kind)
		require.NoDirExists(t, filepath.Join(dir, ".git"), kind)
	}
}

// TestOddEntriesOfArchivesAreLeftOut and named, and the others are unpacked. Limits of all files together refuse an archive.
func TestOddEntriesOfArchivesAreLeftOut(t *testing.T) {
	t.Parallel()
	limits := cas.Limits{Files: 20, FileBytes: 1 << 20, TreeBytes: 2 << 20}
	zeros := strings.Repeat("\x00", 1<<20+1)
	many := make([]entry, 21)
	for i := range many {
		many[i].name = strings.Repeat("a", i+1)
	}
	for what, c := range map[string]struct {
		entries []entry
		says    string
		tarOnly bool
	}{
		"a parent":              {[]entry{{name: "../out.txt", text: "x"}}, "..", false},
		"a parent further down": {[]entry{{name: "a/../../out.txt", text: "x"}}, "..", false},
		"an absolute path":      {[]entry{{name: "/tmp/maestro-out.txt", text: "x"}}, "absolute", false},
		"a path through a link": {
			[]entry{{name: "l", text: "..", mode: fs.ModeSymlink}, {name: "l/out.txt", text: "x"}},
			`lies below "l"`, false,
		},
		"a path below a file":   {[]entry{{name: "f", text: "x"}, {name: "f/g", text: "x"}}, `lies below "f"`, false},
		"a file twice":          {[]entry{{name: "f", text: "x"}, {name: "./f", text: "y"}}, "twice", false},
		"a link, then its file": {[]entry{{name: "f", text: "../out", mode: fs.ModeSymlink}, {name: "f", text: "y"}}, "twice", false},
		"a directory as a file": {[]entry{{name: "d/f", text: "x"}, {name: "d", text: "x"}}, "twice", false},
		"a large file":          {[]entry{{name: "zeros", text: zeros}}, "at most 1048576 are allowed", false},
		"many bytes": {
			[]entry{{name: "1", text: zeros[1:]}, {name: "2", text: zeros[1:]}, {name: "3", text: "x"}},
			"larger than 2097152 bytes", false,
		},
		"many files":          {many, "limit of 20 files", false},
		"many directories":    {[]entry{{name: strings.Repeat("d/", 30) + "f"}}, "limit of 20 files", false},
		"a control character": {[]entry{{name: "a\nb"}}, "control characters", false},
		"no target":           {[]entry{{name: "l", mode: fs.ModeSymlink}}, "empty target", false},
		"a device":            {[]entry{{name: "null", kind: tar.TypeChar}}, "device", true},
		"a pipe":              {[]entry{{name: "pipe", kind: tar.TypeFifo}}, "named pipe", true},
		"a hard link":         {[]entry{{name: "passwd", text: "/etc/passwd", kind: tar.TypeLink}}, "hard link", true},
	} {
		if !slices.Contains([]string{"many bytes", "many files", "many directories"}, what) {
			c.entries = append(append([]entry{{name: "good", text: "x"}}, c.entries...), entry{name: "last", text: "x"})
		}
		archives := map[string][]byte{"tar": tarOf(t, c.entries...), "tar.gz": gzipped(t, tarOf(t, c.entries...))}
		if !c.tarOnly {
			archives["zip"] = zipOf(t, c.entries...)
		}
		for kind, archive := range archives {
			dir, left, err := unpack(t, archive, limits)
			if c.entries[0].name != "good" {
				var refused *cas.RefusedError
				require.ErrorAs(t, err, &refused, "%s as %s", what, kind)
				require.ErrorContains(t, err, c.says, "%s as %s", what, kind)
				continue
			}
			require.NoError(t, err, "%s as %s", what, kind)
			require.Len(t, left, 1, "%s as %s", what, kind)
			require.Contains(t, left[0], c.says, "%s as %s", what, kind)
			for _, name := range []string{"good", "last"} {
				require.FileExists(t, filepath.Join(dir, name), "%s as %s", what, kind)
			}
		}
	}
	_, left, err := unpack(t, zipOf(t, entry{name: `..\out.txt`, text: "x"}), limits)
	require.NoError(t, err)
	require.Contains(t, left[0], "backslash")
	require.NoFileExists(t, "/tmp/maestro-out.txt")
}

func TestWhatIsNoArchiveIsRefused(t *testing.T) {
	t.Parallel()
	whole := zipOf(t, entry{name: "a", text: strings.Repeat("text ", 1000)})
	stream := gzipped(t, tarOf(t, entry{name: "a", text: strings.Repeat("text ", 1000)}))
	for what, data := range map[string][]byte{
		"nothing": {}, "a text": []byte(strings.Repeat("# Title\n", 500)), "half a zip": whole[:len(whole)/2],
		"half a tar.gz":  stream[:len(stream)/2],
		"a gzipped text": gzipped(t, []byte("hello")), "a zip's first bytes": []byte("PK\x03\x04"),
	} {
		_, _, err := unpack(t, data, cas.Limits{})
		require.ErrorIs(t, err, cas.ErrNoArchive, what)
	}
}

// An archive that unpacks to more headers than files takes no memory and no end.
func TestAnArchiveOfHeadersOnlyEnds(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for range 4000 {
		require.NoError(t, w.WriteHeader(&tar.Header{
			Typeflag:   tar.TypeXGlobalHeader,
			PAXRecords: map[string]string{"comment": strings.Repeat("x", 1000)},
		}))
	}
	require.NoError(t, w.Close())
	_, _, err := unpack(t, gzipped(t, b.Bytes()), cas.Limits{Files: 10, TreeBytes: 1 << 20})
	require.ErrorContains(t, err, "larger than")
}
