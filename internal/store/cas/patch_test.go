package cas_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// patchOf is the patch between two trees.
func patchOf(t *testing.T, s *content, from, to spec.Digest, o cas.PatchOptions) string {
	t.Helper()
	var b strings.Builder
	for d, err := range s.Patch(t.Context(), from, to, o) {
		require.NoError(t, err)
		b.WriteString(d.Text)
	}
	return b.String()
}

// applied writes a tree, has a program apply a patch to it, and returns the result.
func applied(t *testing.T, before map[string]string, patch string, argv ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	writeTree(t, dir, before)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, patch)
	for path, content := range readTree(t, dir) {
		info, err := os.Lstat(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, strings.HasPrefix(content, "#!"), info.Mode().IsRegular() && info.Mode()&0o100 != 0, path)
	}
	return readTree(t, dir)
}

func TestGitAppliesAPatch(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	random := make([]byte, 3<<20)
	for i := range random {
		random[i] = byte(rand.New(rand.NewPCG(1, uint64(i/4096))).Uint32()) // compressible, and no text
	}
	big := strings.Repeat("a line of a large text\n", 60_000)
	tests := map[string]struct{ before, after map[string]string }{
		"edits, files that come and go": {
			map[string]string{"keep": "same\n", "edit": "one\ntwo\n", "gone/deep/file": "bye\n"},
			map[string]string{"keep": "same\n", "edit": "one\nthree\n", "new/deep/file": "hi\n"},
		},
		"empty files": {
			map[string]string{"gone": "", "fills": "", "drains": "x\n"},
			map[string]string{"new": "", "fills": "x\n", "drains": ""},
		},
		"no newline at the end": {
			map[string]string{"loses": "a\nb\n", "gains": "a\nb", "keeps": "a\nb", "gone": "x"},
			map[string]string{"loses": "a\nb", "gains": "a\nb\n", "keeps": "c\nb", "new": "x"},
		},
		"modes": {
			map[string]string{"a": "# !\n", "b": "#! x\n"},
			map[string]string{"a": "#! x\n", "b": "# !\n", "c": "#! y\n"},
		},
		"links": {
			map[string]string{"moves": "-> a", "gone": "-> b", "becomes-file": "-> a", "becomes-link": "text\n"},
			map[string]string{"moves": "-> b", "new": "-> c", "becomes-file": "text\n", "becomes-link": "-> a"},
		},
		"names": {
			map[string]string{"with space": "a\n", `quo"ted`: "a\n", `back\slash`: "a\n", "ünï": "a\n", "gone space": "x\n"},
			map[string]string{
				"with space": "b\n", `quo"ted`: "b\n", `back\slash`: "b\n", "ünï": "b\n", "new space": "x\n",
				"tail ": "x\n",
			},
		},
		"a file in place of a directory, and back": {
			map[string]string{"dir/a": "a\n", "dir/sub/b": "b\n", "file": "f\n"},
			map[string]string{"dir": "now a file\n", "file/a": "f\n", "file/sub/b": "b\n"},
		},
		"binaries and large texts": {
			map[string]string{"edit": "a\x00b", "gone": "\xff\xfe", "large": big, "data": string(random)},
			map[string]string{"edit": "a\x00c", "new": "\x00", "large": big + "end\n", "data": string(random[:len(random)-1]) + "!"},
		},
		"carriage returns": {
			map[string]string{"dos": "a\r\nb\r\n"},
			map[string]string{"dos": "a\r\nc\r\n", "old mac": "a\rb"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := snapshot(t, s, tt.before), snapshot(t, s, tt.after)
			forth := patchOf(t, s, from, to, cas.PatchOptions{Binary: true})
			require.Equal(t, tt.after, applied(t, tt.before, forth, "git", "apply", "-"))
			require.Equal(t, tt.before, applied(t, tt.after, forth, "git", "apply", "--reverse", "-"))
			require.Equal(t, tt.before, applied(t, tt.after, patchOf(t, s, to, from, cas.PatchOptions{Binary: true}), "git", "apply", "-"))
		})
	}
}

func TestAPatchNamesWhatItCannotShow(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	from := snapshot(t, s, map[string]string{"data file": "a\x00b", "docs/a.md": "a\n", "docs/b.md": "b\n"})
	to := snapshot(t, s, map[string]string{"data file": "a\x00c", "docs/a.md": "A\n", "docs/b.md": "B\n", "src/c.go": "c\n"})

	var counted []string
	for d, err := range s.Patch(t.Context(), from, to, cas.PatchOptions{}) {
		require.NoError(t, err)
		counted = append(counted, fmt.Sprintf("%s +%d -%d %t", d.Path, d.Added, d.Removed, d.Opaque))
	}
	require.Equal(t, []string{"data file +0 -0 true", "docs/a.md +1 -1 false", "docs/b.md +1 -1 false", "src/c.go +1 -0 false"},
		counted)
	whole := patchOf(t, s, from, to, cas.PatchOptions{})
	require.Contains(t, whole, "Binary files a/data file and b/data file differ\n")
	part := patchOf(t, s, from, to, cas.PatchOptions{Paths: []string{"docs/a*", "src"}})
	require.Equal(t, 2, strings.Count(part, "diff --git"), part)
	require.Contains(t, part, "diff --git a/docs/a.md b/docs/a.md\nindex ")
	for _, err := range s.Patch(t.Context(), from, to, cas.PatchOptions{Paths: []string{"nowhere"}}) {
		require.ErrorIs(t, err, session.ErrNotFound)
	}
}

func TestUnifiedDiffTellsWhatChanged(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	from := snapshot(t, s, map[string]string{
		"keep.txt": "same\n", "edit.txt": "one\ntwo\n", "gone.txt": "bye\n",
		"data.bin": "a\x00b",
	})
	to := snapshot(t, s, map[string]string{
		"keep.txt": "same\n", "edit.txt": "one\nthree\n", "new.txt": "hello\n",
		"data.bin": "a\x00c",
	})

	short, err := s.UnifiedDiff(t.Context(), from, to, 240)
	require.NoError(t, err)
	require.LessOrEqual(t, len(short), 280)
	require.True(t, strings.HasPrefix(short, "diff --git a/data.bin"), short)
	require.Contains(t, short, "edit.txt: changed; the difference is left out here")
}
