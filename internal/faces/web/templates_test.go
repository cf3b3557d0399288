package web

import (
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Templates are read as code is: their lines have at most 130 columns.
func TestLinesOfTemplatesAreShort(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(templateFiles, "templates/*.html")
	require.NoError(t, err)
	for _, file := range files {
		text, err := fs.ReadFile(templateFiles, file)
		require.NoError(t, err)
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 130,
				"%s:%d: break the line between two elements", file, n)
		}
	}
}
