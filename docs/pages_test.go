// Package docs_test does what the project's pages say, as their reader would: with the
// built programs, on a real Temporal server.
package docs_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// programs is where TestMain leaves maestro, maestro-worker and maestro-server.
var programs string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "maestro-docs-")
	if err == nil {
		defer os.RemoveAll(dir)
		programs = dir
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the programs:", err)
		return 1
	}
	return m.Run()
}

func build(dir string) error {
	server, err := filepath.Abs("../bin/maestro-server")
	if err != nil {
		return err
	}
	if _, err := os.Stat(server); err != nil {
		return fmt.Errorf("%w; run `make build` first", err)
	}
	if err := os.Symlink(server, filepath.Join(dir, "maestro-server")); err != nil {
		return err
	}
	for name, pkg := range proctest.Programs {
		// As a reader builds them, whose copy of the source has no repository.
		if err := proctest.Build("..", filepath.Join(dir, name), pkg, "-buildvcs=false"); err != nil {
			return err
		}
	}
	return nil
}

// newReader is somebody in an empty ~/maestro.
func newReader(t *testing.T) *reader {
	t.Helper()
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, "maestro"), 0o755))
	r := &reader{
		home: home, terminals: map[string]*terminal{}, port: proctest.FreePort(t), uiPort: proctest.FreePort(t),
		dashboard: proctest.FreePort(t), log: t.Logf,
	}
	t.Cleanup(r.leave)
	r.environ = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "USER=you", "LANG=C.UTF-8", "TMPDIR=" + os.TempDir(),
		"TEMPORAL_ADDRESS=127.0.0.1:" + r.port,
		"XDG_STATE_HOME=" + filepath.Join(home, ".local/state"), "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"),
	}
	names := []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "GOSUMDB", "GOTOOLCHAIN"}
	values, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	require.NoError(t, err)
	for i, value := range strings.SplitN(string(values), "\n", len(names)) {
		r.environ = append(r.environ, names[i]+"="+strings.TrimSpace(value))
	}
	state := filepath.Join(r.home, ".local/state/maestro")
	_, err = store.Create(state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	proctest.ShareGoCache(t, state)
	return r
}

// newBuilder is a reader with the source in ~/maestro, and with the programs in PATH
// unless the page is to have them built.
func newBuilder(t *testing.T, builds bool) *reader {
	t.Helper()
	r := newReader(t)
	var built []string
	if builds {
		built = slices.Collect(maps.Keys(proctest.Programs))
	} else {
		r.environ = append(r.environ, "PATH="+programs+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	require.NoError(t, copySource("..", filepath.Join(r.home, "maestro"), built))
	return r
}

// copySource copies the source as a reader has it, with the server and the other programs
// named built already, which takes minutes: `make build` finds that they are up to date.
func copySource(from, to string, built []string) error {
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch entry.Name() {
		case ".git", "bin", "node_modules":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		target := filepath.Join(to, name)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		return copyFile(path, target)
	})
	if err != nil {
		return err
	}
	bin := filepath.Join(to, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	for _, name := range built {
		if err := copyFile(filepath.Join(programs, name), filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	server, err := filepath.EvalSymlinks(filepath.Join(programs, "maestro-server"))
	if err == nil && os.Link(server, filepath.Join(bin, "maestro-server")) != nil {
		err = copyFile(server, filepath.Join(bin, "maestro-server")) // on another disk
	}
	return err
}

// copyFile keeps the time, so that what was built from the file counts as built.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// follow has a new reader do what a page says.
func follow(t *testing.T, file string, builds bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	p, err := parsePage(file, string(text))
	require.NoError(t, err)
	require.NotEmpty(t, p.steps, "%s has nothing to do", file)
	if err := newBuilder(t, builds).follow(p); err != nil {
		require.Fail(t, err.Error())
	}
}

// TestPages does what the pages say that need Go, git and make only.
func TestPages(t *testing.T) {
	t.Parallel()
	for file, builds := range map[string]bool{
		"../README.md":       true,
		"getting-started.md": true,
		"team-file.md":       false,
		"resuming.md":        false,
		"migration.md":       false,
		"tutorial.md":        false,
		"cli.md":             false,
		"operations.md":      false,
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			follow(t, file, builds)
		})
	}
}
