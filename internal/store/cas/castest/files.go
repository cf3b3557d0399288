package castest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// WriteTree writes files by path below dir. A content of "-> target" makes a link,
// and one that starts with "#!" an executable.
func WriteTree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for p, content := range files {
		path := filepath.Join(dir, p)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if len(content) > 3 && content[:3] == "-> " {
			require.NoError(t, os.Symlink(content[3:], path))
			continue
		}
		mode := os.FileMode(0o644)
		if len(content) > 2 && content[:2] == "#!" {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
	}
}

// ReadTree is the reverse of WriteTree, without modes.
func ReadTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out, tree := map[string]string{}, os.DirFS(dir)
	require.NoError(t, fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := fs.ReadLink(tree, p)
			out[p] = "-> " + target
			return err
		}
		data, err := fs.ReadFile(tree, p)
		out[p] = string(data)
		return err
	}))
	return out
}
