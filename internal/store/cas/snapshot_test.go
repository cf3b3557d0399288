package cas_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

func TestSnapshotsLeaveKeysOut(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"main.go": "1", "environment.go": "1", "monkey.go": "1", ".env": "1", "app/.env.local": "1", "tls/server.pem": "1",
		"tls/SERVER.KEY": "1",
		"id_rsa":         "1", "id_rsa.pub": "1", "id_ed25519": "1", ".ssh/config": "1", ".gitignore": "*.log\n", "a.log": "1",
		"node_modules/x/y": "1",
	})
	snap := snapped(t, s, dir, cas.SnapshotOptions{})
	require.Equal(t, []string{".gitignore", "environment.go", "main.go", "monkey.go"}, manifest(t, s, snap.Manifest).Paths())
	require.Equal(t, []string{
		".env", ".ssh/", "app/.env.local", "id_ed25519", "id_rsa", "id_rsa.pub", "tls/SERVER.KEY",
		"tls/server.pem",
	}, snap.Private)
	require.Equal(t, []string{"a.log", "node_modules/"}, snap.Ignored)
	require.Equal(t, 4, snap.Files)
	require.EqualValues(t, 9, snap.Bytes)

	snap, err := s.Snapshot(t.Context(), dir,
		cas.SnapshotOptions{Include: []string{"app/.env.*", "a.log", ".ssh/config", "node_modules/x/*"}, Ignore: []string{"m*.go"}})
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", ".ssh/config", "a.log", "app/.env.local", "environment.go", "node_modules/x/y"},
		manifest(t, s, snap.Manifest).Paths())
}

// TestTrackedFiles are taken although a .gitignore or their names exclude them, but not what the team ignores.
func TestTrackedFiles(t *testing.T) {
	t.Parallel()
	s, dir := newStore(t), t.TempDir()
	tracked := []string{".gitignore", "dist/a", "gen/b", "gen/c", "x.log", ".env", "gone"}
	writeTree(t, dir, map[string]string{
		".gitignore": "dist/\n*.log\n", "dist/a": "1", "dist/new": "1", "gen/b": "1", "gen/c": "1",
		"x.log": "1", ".env": "1",
	})
	taken := func(o cas.SnapshotOptions) (paths, ignored []string) {
		snap := snapped(t, s, dir, o)
		return manifest(t, s, snap.Manifest).Paths(), snap.Ignored
	}
	paths, ignored := taken(cas.SnapshotOptions{Tracked: tracked, Ignore: []string{"gen/", "!gen/c", "*.log"}})
	require.Equal(t, []string{".env", ".gitignore", "dist/a"}, paths)
	require.Equal(t, []string{"dist/new", "gen/", "x.log"}, ignored)
}

// TestWhatCannotBeReadIsLeftOut of a workspace, and of a result if it is new and cannot be made readable.
func TestWhatCannotBeReadIsLeftOut(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may read everything; make test-user runs this as another user")
	}
	s, dir := newStore(t), t.TempDir()
	writeTree(t, dir, map[string]string{"a": "1", "closed/b": "1", "listed/c": "1", "d/.gitignore": "x\n", "d/x": "1", "e": "1"})
	for p, mode := range map[string]os.FileMode{"closed": 0, "listed": 0o400, "d/.gitignore": 0, "e": 0} {
		require.NoError(t, os.Chmod(filepath.Join(dir, p), mode))
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, p), 0o700) })
	}
	snap := snapped(t, s, dir, cas.SnapshotOptions{Tracked: []string{"closed/b", "e"}})
	require.Equal(t, []string{
		`"closed/": cannot be read: permission denied`, `"d/.gitignore": cannot be read: permission denied`,
		`"d/.gitignore": its ignore rules do not count: it cannot be read: permission denied`, `"e": cannot be read: permission denied`,
		`"listed/": cannot be read: permission denied`,
	}, snap.Odd)
	require.Equal(t, []string{"a", "d/x"}, manifest(t, s, snap.Manifest).Paths())
}

func TestASnapshotOnlyReads(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a": "1", "d/b": "2"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "d"), 0o500))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "d"), 0o755) })
	snapped(t, s, dir, cas.SnapshotOptions{})
	info, err := os.Stat(filepath.Join(dir, "d"))
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o500, info.Mode())
	require.Len(t, readTree(t, dir), 2)
}

func TestAStoreInsideTheWorkspaceIsSkipped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a": "1"})
	s := open(t, filepath.Join(dir, "state", "maestro"), cas.Limits{})
	for range 2 {
		require.Equal(t, []string{"a"}, snapshotPaths(t, s, dir))
	}
}

func TestAWorkspaceThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	snap := snapped(t, s, dir, cas.SnapshotOptions{})
	require.Equal(t, []string{`because they cannot be kept: "pipe": is a named pipe; only files and links can be kept`},
		snap.LeftOut())
	_, err := s.Snapshot(t.Context(), dir, cas.SnapshotOptions{Include: []string{"pipe"}})
	var refused *cas.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "pipe", refused.Path)
	_, err = s.Snapshot(t.Context(), filepath.Join(dir, "absent"), cas.SnapshotOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = s.Snapshot(t.Context(), dir, cas.SnapshotOptions{Include: []string{"["}})
	require.ErrorAs(t, err, &refused)
}

// gitFiles lists what git would add of a directory.
func gitFiles(t *testing.T, dir string) []string {
	t.Helper()
	git := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME=/nonexistent")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		return out
	}
	git("init", "-q")
	var out []string
	for p := range strings.SplitSeq(string(git("ls-files", "-z", "--others", "--exclude-standard")), "\x00") {
		if p != "" {
			out = append(out, p)
		}
	}
	require.NoError(t, os.RemoveAll(filepath.Join(dir, ".git")))
	slices.Sort(out)
	return out
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
}

func snapshotPaths(t *testing.T, s *content, dir string) []string {
	t.Helper()
	return manifest(t, s, snapped(t, s, dir, cas.SnapshotOptions{}).Manifest).Paths()
}

func TestIgnoresAsGitDoes(t *testing.T) {
	t.Parallel()
	needGit(t)
	tree := []string{
		"a.log", "keep.log", "dir/a.log", "dir/keep.log", "build/out", "src/build/out", "src/main.go", "doc/a.txt",
		"doc/sub/a.txt", "doc/sub/deep/a.txt", "x{1,2}", "x1", "#note", "!bang", "sp ace", "end ", "a/b/c/d", "abc", "aXc", "[x]", "b0",
		"b5",
	}
	for _, c := range []map[string]string{
		{".gitignore": "*.log\n!keep.log\n"},
		{".gitignore": "*.log\n", "dir/.gitignore": "!keep.log\n"},
		{".gitignore": "/build\n"},
		{".gitignore": "build/\n"},
		{".gitignore": "doc/**\n!doc/sub/\n!doc/sub/a.txt\n"},
		{".gitignore": "doc/*\n!doc/a.txt\n"},
		{".gitignore": "**/sub/**/a.txt\n"},
		{".gitignore": "doc/**/a.txt\n"},
		{".gitignore": "**\n!*.go\n"},
		{".gitignore": "*\n!*/\n!*.go\n"},
		{".gitignore": "x{1,2}\n"},
		{".gitignore": "\\#note\n\\!bang\nsp\\ ace\nend\\ \n"},
		{".gitignore": "# comment\r\n*.txt\r\n   \n"},
		{".gitignore": "\uFEFF*.log\n"},
		{".gitignore": "b[0-4]\na[!b]c\n\\[x\\]\n"},
		{".gitignore": "b[[:digit:]]\n"},
		{".gitignore": "b[^0]\n[\n"},
		{".gitignore": "a/b\n!a/b/c/d\n"},
		{".gitignore": "/a/**/d\n"},
		{".gitignore": "/\n//\nfoo/\n!\n"},
		{".gitignore": "doc/sub/\n", "doc/.gitignore": "!sub/\n"},
		{"doc/.gitignore": "/a.txt\nsub/a.txt\n"},
		{"doc/.gitignore": "*\n", "doc/sub/.gitignore": "!a.txt\n"},
		{".gitignore": "a*c\n?0\n"},
		{".gitignore": "*.t?t \ndoc/ \n"},
	} {
		s, dir := newStore(t), t.TempDir()
		files := maps.Clone(c)
		for _, p := range tree {
			if _, ok := files[p]; !ok {
				files[p] = "x"
			}
		}
		writeTree(t, dir, files)
		require.Equal(t, gitFiles(t, dir), snapshotPaths(t, s, dir), "%q", c)
	}
}

func TestIgnoresAsGitDoesAtRandom(t *testing.T) {
	t.Parallel()
	needGit(t)
	s := newStore(t)
	tokens := []string{"a", "b", "c", "*", "?", "**", "/", "/", "[ab]", "[!a]", "{a,b}", `\a`, "!", "a*", "*b"}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		files := map[string]string{}
		for range 12 {
			files[randomPath(r)+"/"+string(rune('a'+r.IntN(3)))+"b"] = "x"
		}
		for _, dir := range []string{"", "a/", "b/a/"}[:1+r.IntN(3)] {
			var text strings.Builder
			for range 1 + r.IntN(3) {
				for range 1 + r.IntN(4) {
					text.WriteString(tokens[r.IntN(len(tokens))])
				}
				text.WriteByte('\n')
			}
			files[dir+".gitignore"] = text.String()
		}
		dir := t.TempDir()
		writeTree(t, dir, files)
		require.Equal(t, gitFiles(t, dir), snapshotPaths(t, s, dir), "seed %d: %q", seed, files)
	}
}

// TestIgnoreRulesThatAreTooMany do not count, and a workspace or a result with them is not refused: each file of a
// directory is compared with all rules that apply.
func TestIgnoreRulesThatAreTooMany(t *testing.T) {
	t.Parallel()
	rules := strings.Repeat("q\n", 4000)
	s := newStore(t)
	files := map[string]string{
		".gitignore": rules + "*.log\n", "a/.gitignore": rules, "a/a/.gitignore": rules + "kept\n", "a/a/kept": "1", "a/a/b.log": "1",
		"large/.gitignore": "kept\n" + strings.Repeat("#", 256<<10), "large/kept": "1", "large/b.log": "1",
	}
	dir := t.TempDir()
	writeTree(t, dir, files)
	said := []string{
		`"a/a/.gitignore": its ignore rules do not count: it makes 12002 rules with those above it; at most 10000 are allowed`,
		`"large/.gitignore": its ignore rules do not count: it has 262149 bytes; at most 262144 are allowed`,
	}
	taken := []string{".gitignore", "a/.gitignore", "a/a/.gitignore", "a/a/kept", "large/.gitignore", "large/kept"}
	snap := snapped(t, s, dir, cas.SnapshotOptions{})
	require.Equal(t, said, snap.Odd)
	require.Equal(t, taken, manifest(t, s, snap.Manifest).Paths())

	empty, err := s.PutManifest(t.Context(), cas.Manifest{})
	require.NoError(t, err)
	out := collected(t, s, session.Collect{Base: empty, Dir: dir})
	require.Equal(t, said, out.LeftOut)
	require.Equal(t, taken, out.Changed)
	upper := t.TempDir() // over the result
	writeTree(t, upper, map[string]string{"a/a/kept": "2", "a/a/c.log": "1", "large/kept": "2"})
	out = collected(t, s, session.Collect{Base: out.Output, Lower: out.Output, Dir: upper})
	require.Equal(t, said, out.LeftOut)
	require.Equal(t, []string{"a/a/kept", "large/kept"}, out.Changed)
}
