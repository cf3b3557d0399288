package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnifiedDiffTellsWhatChanged(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	from := snapshot(t, s, map[string]string{"keep.txt": "same\n", "edit.txt": "one\ntwo\n", "gone.txt": "bye\n", "data.bin": "a\x00b"})
	to := snapshot(t, s, map[string]string{"keep.txt": "same\n", "edit.txt": "one\nthree\n", "new.txt": "hello\n", "data.bin": "a\x00c"})

	diff, err := s.UnifiedDiff(t.Context(), from, to, 1<<16)
	require.NoError(t, err)
	require.Equal(t, `data.bin: no text; 3 bytes, now 3
--- a/edit.txt
+++ b/edit.txt
@@ -1,2 +1,2 @@
 one
-two
+three
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+hello
`, diff)

	var counted []string
	for d, err := range s.PathDiffs(t.Context(), from, to) {
		require.NoError(t, err)
		counted = append(counted, fmt.Sprintf("%s %t %t +%d -%d", d.Path, d.Had, d.Has, d.Added, d.Removed))
	}
	require.Equal(t, []string{
		"data.bin true true +0 -0", "edit.txt true true +1 -1", "gone.txt true false +0 -1", "new.txt false true +1 -0",
	}, counted)

	short, err := s.UnifiedDiff(t.Context(), from, to, 120)
	require.NoError(t, err)
	require.LessOrEqual(t, len(short), 160)
	require.True(t, strings.HasPrefix(short, "data.bin: no text"), short)
}
