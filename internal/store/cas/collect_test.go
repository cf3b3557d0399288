package cas_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
)

// materialised fills a new directory from a tree given by its files.
func materialised(t *testing.T, s *content, files map[string]string) (dir string, manifest spec.Digest) {
	t.Helper()
	manifest = snapshot(t, s, files)
	dir = filepath.Join(t.TempDir(), "tree")
	require.NoError(t, s.Materialise(t.Context(), manifest, dir))
	return dir, manifest
}

// files reads a tree as "path=content": without a content it is 1, and one that begins with -> is a link.
func files(text string) map[string]string {
	all := map[string]string{}
	for _, word := range strings.Fields(text) {
		path, content, ok := strings.Cut(word, "=")
		if target, link := strings.CutPrefix(content, "->"); link {
			content = "-> " + target
		} else if !ok {
			content = "1"
		}
		all[path] = content
	}
	return all
}

// TestWhatIsCollected has a directory filled from a base, to which files are added, .gitignore with rules among them.
func TestWhatIsCollected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, base, add, rules   string
		remove                   []string
		ignore, produces         []string
		wantChanged, wantDeleted string
	}{
		{name: "nothing", base: "a"},
		{
			name: "new, changed, deleted", base: "a b c/d", add: "a=2 n/e/w", remove: []string{"c"},
			wantChanged: "a n/e/w", wantDeleted: "c/d",
		},
		{name: "executable", base: "a=#!x", add: "b=#!x", wantChanged: "b"},
		{name: "caches", add: "node_modules/x/y a/target/x a/pom.xml .venv/x b/__pycache__/x ok", wantChanged: "a/pom.xml ok"},
		{
			name: "git's own", add: ".git/config sub/.git=gitdir:x other/.GIT/config a/.g\u200cit/config b/git~1/config " +
				"d/.git::$INDEX_ALLOCATION/x ok", wantChanged: "ok",
		},
		{name: "sources in a directory named like a build", add: "internal/target/new.go", wantChanged: "internal/target/new.go"},
		{
			name: "sources below one beside which a build is", add: "Cargo.toml src/target/mod.rs target/x",
			wantChanged: "Cargo.toml src/target/mod.rs",
		},
		{name: "files named like caches", add: "target a/node_modules", wantChanged: "a/node_modules target"},
		{name: "links instead of caches", add: "node_modules=->/outside"},
		{
			name: "own .gitignore", rules: "*.log", add: "a.log d/b.log d/.gitignore=!b.log",
			wantChanged: ".gitignore d/.gitignore d/b.log",
		},
		{name: "taken back", rules: "!target", add: "target/x", wantChanged: ".gitignore target/x"},
		{name: "the team's", rules: "!*.tmp", add: "a.tmp b/c.tmp d", ignore: []string{"*.tmp"}, wantChanged: ".gitignore d"},
		{
			name: "produced", rules: "dist/\n*.log", add: "dist/a.js dist/b.css x.log y.log", produces: []string{"dist/*.js", "x.log"},
			wantChanged: ".gitignore dist/a.js x.log",
		},
		{
			name: "produced anywhere, but not in caches", rules: "out/", add: "out/a.md node_modules/m/README.md",
			produces: []string{"**/*.md"}, wantChanged: ".gitignore out/a.md",
		},
		{
			name: "produced in a cache by name", add: "app/Cargo.toml app/target/release/app app/target/debug/app",
			produces: []string{"**/target/release/*"}, wantChanged: "app/Cargo.toml app/target/release/app",
		},
		{name: "git's own is never produced", add: ".git/hooks/x", produces: []string{"**", ".git/**"}},
		{
			name: "ignored but in the base", base: "a.log out/x out/y out/z", rules: "*.log\nout/", add: "a.log=2 out/x=2 out/new b.log",
			remove: []string{"out/y"}, wantChanged: ".gitignore a.log out/x", wantDeleted: "out/y",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			dir, base := materialised(t, s, files(c.base))
			for _, p := range c.remove {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, p)))
			}
			add := files(c.add)
			if c.rules != "" {
				add[".gitignore"] = c.rules + "\n"
			}
			if c.name == "git's own" {
				add["c/.git. /x"] = "1"
			}
			writeTree(t, dir, add)
			out := collected(t, s, session.Collect{Base: base, Dir: dir, Ignore: c.ignore, Produces: c.produces})
			require.Equal(t, strings.Fields(c.wantChanged), out.Changed)
			require.Equal(t, strings.Fields(c.wantDeleted), out.Deleted)

			delta, err := s.Delta(t.Context(), out.Delta)
			require.NoError(t, err)
			before := manifest(t, s, base)
			after := manifest(t, s, out.Output)
			require.Equal(t, after, castest.Apply(before, delta))
			for p, e := range after {
				if e.Link == "" {
					data, err := s.Blob(t.Context(), e.SHA256)
					require.NoError(t, err, p)
					require.Len(t, data, int(e.Size), p)
				}
			}
			if len(c.base) == 0 {
				alone := newStore(t)
				of, err := alone.Collect(t.Context(), session.Collect{Dir: dir, Ignore: c.ignore, Produces: c.produces})
				require.NoError(t, err)
				require.Equal(t, out, of, "without a base")
				require.NoError(t, alone.Intact(t.Context(), of.Output))
			}
		})
	}
}

func TestWhatMayNotBeKept(t *testing.T) {
	t.Parallel()
	has := func(tree string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { writeTree(t, dir, files(tree)) }
	}
	named := func(name string, sizes ...int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := mustWrite(t, dir, name)
			for _, size := range sizes {
				require.NoError(t, os.Truncate(path, size))
			}
		}
	}
	many := func(n int, sizes ...int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for i := range n {
				named(fmt.Sprintf("f%02d", i), sizes...)(t, dir)
			}
		}
	}
	odd := []string{
		"absolute link", "escaping link", "escape through a link", "named pipe", "socket", "control character",
		"not UTF-8", "too long", "too large", "git in a directory",
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir string)
		says []string
	}{
		{"absolute link", has("l=->/etc/passwd"), []string{`"l"`, "absolute"}},
		{"escaping link", has("d/l=->../../x"), []string{`"d/l"`, "out of the tree"}},
		{"escape through a link", has("d/up=->.. x=->d/up/../etc"), []string{`"x"`, ".."}},
		{"named pipe", func(t *testing.T, dir string) {
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "p"), 0o600))
		}, []string{`"p"`, "named pipe"}},
		{"socket", func(t *testing.T, dir string) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
			require.NoError(t, err)
			l.SetUnlinkOnClose(false)
			require.NoError(t, l.Close())
		}, []string{`"s"`, "socket"}},
		{"git in a directory", has("x/.git/config=[core]"), []string{`"x/.git"`, "git itself"}},
		{"too large", named("big", 1001), []string{`"big"`, "1001 bytes", "1000"}},
		{"too large together", many(4, 1000), []string{`"f03"`, "3000", "limits.tree_bytes"}},
		{"too many", many(12), []string{`"f10"`, "10"}},
		{"control character", named("a\nb"), []string{`"a\nb"`, "control"}},
		{"not UTF-8", named("a\xff"), []string{"UTF-8"}},
		{"too long", has(strings.Repeat(strings.Repeat("d", 200)+"/", 6) + "f"), []string{"1024"}},
		{"secret", has("cfg=key:hunter2hunter2"), []string{`"cfg"`, "secret"}},
		{"secret in a name", named("is-hunter2hunter2"), []string{`"is-***"`, "secret"}},
		{"secret in a link", has("l=->hunter2hunter2"), []string{`"l"`, "secret"}},
		{"the directory is gone", func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
		}, []string{"directory was removed or replaced"}},
		{"a link in its place", func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Symlink(t.TempDir(), dir))
		}, []string{"directory was removed or replaced"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), cas.Limits{Files: 10, FileBytes: 1000, TreeBytes: 3000})
			dir, base := materialised(t, s, nil)
			c.make(t, dir)
			// Over an empty tree, an upper directory is the whole tree.
			for _, lower := range []spec.Digest{"", base} {
				req := session.Collect{
					Base: base, Lower: lower, Dir: dir,
					Secrets: secrets.New([]secrets.Secret{{Name: "KEY", Value: ""}, {Name: "KEY", Value: "hunter2hunter2"}}),
				}
				if slices.Contains(odd, c.name) { // it is left out and named, unless it had to be produced by its name
					req.Produces = []string{"**", "{l,p,s}"}
					out := collected(t, s, req)
					require.Len(t, out.LeftOut, 1)
					for _, part := range c.says {
						require.Contains(t, out.LeftOut[0], part)
					}
					name, err := strconv.QuotedPrefix(out.LeftOut[0])
					require.NoError(t, err)
					name, err = strconv.Unquote(name)
					require.NoError(t, err)
					req.Produces = []string{name}
				}
				_, err := s.Collect(t.Context(), req)
				var failure *failures.Failure
				require.ErrorAs(t, err, &failure)
				require.Equal(t, failures.InvalidOutput, failure.Category)
				require.LessOrEqual(t, len(failure.Message), session.MaxMessage)
				for _, part := range c.says {
					require.Contains(t, failure.Message, part)
				}
				require.NotContains(t, failure.Message, "hunter2")
			}

			left, err := filepath.Glob(filepath.Join(s.Dir(), "tmp", "*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// TestAFileThatOutgrowsTheLimitKeepsItsOldVersion: it is named, and neither removed nor a failure of the work beside it.
func TestAFileThatOutgrowsTheLimitKeepsItsOldVersion(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), cas.Limits{FileBytes: 1000, TreeBytes: 1500})
	dir, base := materialised(t, s, map[string]string{"log": "small", "other": "1"})
	require.NoError(t, os.Truncate(filepath.Join(dir, "log"), 2000))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), []byte("2"), 0o600))
	for _, lower := range []spec.Digest{"", base} {
		out := collected(t, s, session.Collect{Base: base, Lower: lower, Dir: dir})
		require.Equal(t, []string{"other"}, out.Changed)
		require.Empty(t, out.Deleted)
		require.Equal(t, []string{`"log": has 2000 bytes; at most 1000 are allowed (limits.file_bytes); its old version is kept`},
			out.LeftOut)
		_, err := s.Collect(t.Context(), session.Collect{Base: base, Lower: lower, Dir: dir, Produces: []string{"log"}})
		require.ErrorContains(t, err, "at most 1000 are allowed")
	}
	snap := snapped(t, s, dir, cas.SnapshotOptions{Tracked: []string{"log"}})
	require.Equal(t, []string{`"log": has 2000 bytes; at most 1000 are allowed (limits.file_bytes)`}, snap.Odd)
	require.Equal(t, 1, snap.Files)
}

func mustWrite(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
	return path
}

func TestIgnoredThingsAreNotRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir, base := materialised(t, s, nil)
	writeTree(t, dir, map[string]string{
		".gitignore": "run/\n/out\n", "out": "-> /elsewhere", "run/x": "1",
		"node_modules/.bin/x": "-> /x",
	})
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "run", "pipe"), 0o600))
	mustWrite(t, dir, "run/a\nb")
	require.Equal(t, []string{".gitignore"}, collected(t, s, session.Collect{Base: base, Dir: dir}).Changed)
}

func TestSecretsAreFoundAcrossBuffers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const secret = "correct horse battery staple"
	const buffer = 256 << 10
	for _, at := range []int{0, 100, buffer - len(secret), buffer - 10, buffer - 1, buffer, 2*buffer - 3, 3*buffer - len(secret)} {
		dir, base := materialised(t, s, nil)
		content := []byte(strings.Repeat("x", 3*buffer))
		copy(content[at:], secret)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "big"), content, 0o600))
		_, err := s.Collect(t.Context(), session.Collect{
			Base: base, Dir: dir,
			Secrets: secrets.New([]secrets.Secret{{Name: "KEY", Value: "short one"}, {Name: "KEY", Value: secret}}),
		})
		var failure *failures.Failure
		require.ErrorAs(t, err, &failure, at)
	}
}

func TestAnUnchangedFileMayHoldWhatACollectedOneMayNot(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir, base := materialised(t, s, map[string]string{"cfg": "key=hunter2hunter2"})
	writeTree(t, dir, map[string]string{"cfg": "key=hunter2hunter2"}) // written anew, the same
	_, err := s.Collect(t.Context(),
		session.Collect{Base: base, Dir: dir, Secrets: secrets.New([]secrets.Secret{{Name: "KEY", Value: "hunter2hunter2"}})})
	require.NoError(t, err)
}

func TestFilesThatTheirOwnerLockedAway(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir, base := materialised(t, s, map[string]string{"a": "1", "d/b": "1"})
	writeTree(t, dir, map[string]string{"a": "2", "d/b": "2"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0))
	require.NoError(t, os.Chmod(filepath.Join(dir, "d"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "d"), 0o755) })
	require.Equal(t, []string{"a", "d/b"}, collected(t, s, session.Collect{Base: base, Dir: dir}).Changed)

	require.NoError(t, os.Chmod(filepath.Join(dir, "d"), 0))
	require.NoError(t, s.Materialise(t.Context(), base, dir))
	require.Equal(t, map[string]string{"a": "1", "d/b": "1"}, readTree(t, dir))
}

func TestOnlyAddsToADelta(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir, base := materialised(t, s, map[string]string{"a": "1", "b": "1"})
	writeTree(t, dir, map[string]string{"a": "2", "new": "1", ".gitignore": "*.out\n"})
	work := collected(t, s, session.Collect{Base: base, Dir: dir})

	// A check leaves things behind, of which only some are kept.
	writeTree(t, dir, map[string]string{"coverage.out": "99%", "junk": "1", "a": "spoiled", "report/x.xml": "1"})
	require.NoError(t, os.Remove(filepath.Join(dir, "b")))
	out, err := s.Collect(t.Context(), session.Collect{
		Base: base, Dir: dir, Only: []string{"coverage.out", "report/**"},
		On: work.Output,
	})
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", "a", "coverage.out", "new", "report/x.xml"}, out.Changed)
	require.Empty(t, out.Deleted)
	to := filepath.Join(t.TempDir(), "to")
	require.NoError(t, s.Materialise(t.Context(), out.Output, to))
	require.Equal(t, map[string]string{
		"a": "2", "b": "1", "new": "1", ".gitignore": "*.out\n", "coverage.out": "99%",
		"report/x.xml": "1",
	}, readTree(t, to))

	// What the check took back is taken back.
	require.NoError(t, os.Remove(filepath.Join(dir, "new")))
	out = collected(t, s, session.Collect{Base: base, Dir: dir, Only: []string{"new"}, On: work.Output})
	require.Equal(t, []string{".gitignore", "a"}, out.Changed)
}

func TestACollectionOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	_, err := s.Collect(t.Context(), session.Collect{Base: sha([]byte("absent")), Dir: t.TempDir()})
	require.ErrorIs(t, err, session.ErrNotFound)
	blob, err := s.PutBlob(t.Context(), []byte("no manifest"))
	require.NoError(t, err)
	_, err = s.Collect(t.Context(), session.Collect{Base: blob, Dir: t.TempDir()})
	require.ErrorIs(t, err, session.ErrNotFound)
	_, err = s.Blob(t.Context(), blob)
	require.NoError(t, err, "a sound blob stays, whatever it was taken for")
}

// edit changes a directory at random and keeps files in step.
func edit(t *testing.T, r *rand.Rand, dir string, files map[string]string) {
	t.Helper()
	for range r.IntN(6) {
		p := randomPath(r)
		remove := func(at string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, at)))
			maps.DeleteFunc(files, func(f, _ string) bool { return f == at || strings.HasPrefix(f, at+"/") })
		}
		for above := filepath.Dir(p); above != "."; above = filepath.Dir(above) {
			if _, ok := files[above]; ok {
				remove(above)
			}
		}
		remove(p)
		if r.IntN(3) > 0 {
			// Sizes repeat, so that only times can tell the contents apart.
			content := fmt.Sprintf("%d", r.IntN(10))
			if r.IntN(5) == 0 {
				content = "-> " + []string{"a", "b", "c"}[r.IntN(3)]
			}
			writeTree(t, dir, map[string]string{p: content})
			files[p] = content
		}
	}
}

func TestCollectionIsTheDifference(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		dir, files := filepath.Join(t.TempDir(), "tree"), map[string]string{}
		base, err := s.PutManifest(t.Context(), cas.Manifest{})
		require.NoError(t, err)
		for range 4 {
			require.NoError(t, s.Materialise(t.Context(), base, dir))
			require.Equal(t, files, readTree(t, dir), "seed %d", seed)
			edit(t, r, dir, files)
			out := collected(t, s, session.Collect{Base: base, Dir: dir})
			require.Equal(t, manifestOf(files), manifest(t, s, out.Output), "seed %d", seed)
			base = out.Output
		}
	}
}

func TestLinksIntoTheTreeAreMadeRelative(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir, base := materialised(t, s, map[string]string{"lib/a": "1", "bin/x": "1", "link": "-> lib"})
	upper := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(upper, "bin"), 0o700))
	for _, req := range []session.Collect{{Base: base, Dir: dir}, {Base: base, Lower: base, Dir: upper}} {
		for link, target := range map[string]string{
			"bin/full": filepath.Join(req.Dir, "lib/a"), "bin/room": "/workspace/lib/a", "bin/behind": "../lib/../lib/a",
			"top":         "/workspace",
			"bin/through": "../link/../lib/a", "bin/nowhere": "../no/../lib/a", "bin/same": "../link/x/../link",
		} {
			require.NoError(t, os.Symlink(target, filepath.Join(req.Dir, link)))
		}
		out := collected(t, s, req)
		require.Len(t, out.LeftOut, 3, "where .. could lead anywhere: %q", out.LeftOut)
		m := manifest(t, s, out.Output)
		for link, target := range map[string]string{
			"bin/full": "../lib/a", "bin/room": "../lib/a", "bin/behind": "../lib/a",
			"top": ".",
		} {
			require.Equal(t, target, m[link].Link, link)
		}
	}
}

// manifestOf is the manifest of files as [edit] keeps them.
func manifestOf(files map[string]string) cas.Manifest {
	m := cas.Manifest{}
	for p, content := range files {
		m[p] = file(content)
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			m[p] = cas.Entry{Link: target}
		}
	}
	return m
}
