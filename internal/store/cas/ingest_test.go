package cas

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// TestAFileIsReplacedAfterItWasListed has another file, a link, a pipe or a directory take the place of a
// file between the listing and the reading: what is read then must not become part of a tree.
func TestAFileIsReplacedAfterItWasListed(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(path, other string) error{
		"another file": func(path, other string) error { return os.Rename(other, path) },
		"a link":       func(path, other string) error { return os.Symlink(other, path) },
		"a pipe":       func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"a directory":  func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"nothing":      func(string, string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			path, other := filepath.Join(top, "tree", "file"), filepath.Join(top, "other")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte("listed"), 0o600))
			require.NoError(t, os.WriteFile(other, []byte("not of the tree"), 0o600))
			storeDir := t.TempDir()
			files, err := storage.NewDirectory(storeDir, time.Now)
			require.NoError(t, err)
			s := New(files, Options{StoreDir: storeDir})
			dir, err := openTop(filepath.Dir(path))
			require.NoError(t, err)
			defer dir.Close()
			listed, err := list(dir)
			require.NoError(t, err)
			require.NoError(t, os.Remove(path))
			require.NoError(t, replace(path, other))

			in := &ingestion{store: s, root: dir, secrets: secrets.New(nil), files: []found{{path: "file", listed: listed[0]}}}
			defer in.close()
			require.Error(t, in.run(t.Context()))
		})
	}
}
