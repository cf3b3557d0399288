package store_test

import (
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

	short, err := s.UnifiedDiff(t.Context(), from, to, 120)
	require.NoError(t, err)
	require.LessOrEqual(t, len(short), 160)
	require.True(t, strings.HasPrefix(short, "data.bin: no text"), short)
}
