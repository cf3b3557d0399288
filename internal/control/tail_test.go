package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/workdir"
)

// A worker that is lost leaves a file that ends somewhere. The next one goes through the
// answers that are stored, into another file.
func TestWhatAModelRepeatsIsNotFollowedTwice(t *testing.T) {
	t.Parallel()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	key, id := session.Key{Namespace: "default", Session: "s"}, spec.AssignmentID{Phase: "build", Persona: "dev"}
	dirs := workdir.New(workdir.Options{Root: workdir.DefaultRoot(s.Dir())})
	dir, err := dirs.Make(key, id)
	require.NoError(t, err)
	var l Tail
	defer l.Close()
	prints := func(text string, anew bool) string {
		t.Helper()
		flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
		if anew {
			require.NoError(t, os.Rename(dir.LiveLog, filepath.Join(t.TempDir(), "old")))
		}
		f, err := os.OpenFile(dir.LiveLog, flags, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		lines, err := l.Follow(LiveLogs{dirs}, key, id, true)
		require.NoError(t, err)
		return strings.Join(lines, "\n")
	}
	require.Equal(t, "-- turn 1: asking m\nI look.", prints("-- turn 1: asking m\nI look.\n> re", false))
	require.Equal(t, "> read a", prints("ad a\n", false))
	require.True(t, l.Has("read a"))
	require.Equal(t, "< a: x", prints("-- turn 1: using the stored answer\nI look.\n> read a\n< a: x\n", true))
	require.Equal(t, " y", l.Rest("-- turn 1: using the stored answer\nI look.\n> read a\n< a: x\n y"))

	require.Equal(t, "starting", prints("starting\n", true))
	require.Equal(t, "starting", prints("starting\n", true), "a program says it once more")
}

func TestOfALongTranscriptTheRestIsFound(t *testing.T) {
	t.Parallel()
	printed := strings.Repeat("a line of it\n", 1000) + "the last line\n"
	l := Tail{text: []byte(printed)}
	require.Equal(t, "more\n", l.Rest("the beginning\n… 9 bytes omitted …\n"+printed[len(printed)-maxOverlap-100:]+"more\n"))
	require.Equal(t, "something else", l.Rest("something else"))
}

// A program that writes no line ends does not fill the memory of its readers.
func TestALineOfALogIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	text := strings.Repeat("é", 3*maxTailLine/2+100) + "\nlast\n"
	require.NoError(t, os.WriteFile(path, []byte(text[:3*maxTailLine+10]), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	l := Tail{file: file}
	defer l.Close()
	lines, err := l.readNew()
	require.NoError(t, err)
	require.Less(t, len(l.rest), maxTailLine)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	more, err := l.readNew()
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(text, "\n", ""), strings.Join(append(lines, more...), ""))
	require.Equal(t, int64(len(text)), l.read)
	require.Empty(t, l.Rest(text))
}
