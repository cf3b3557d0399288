package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

// A note tells why a breaker was opened: in the words of a person or a provider.
func TestNotesAreOnlySeen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{env: Env{Stdout: &out, Stderr: &out, Now: func() time.Time { return time.Unix(0, 0) }}}
	v := view{Status: team.Status{Session: "s"}, Notes: []string{"it moves\x1b[2J"}}
	a.writeStatus(&out, v)
	require.Contains(t, out.String(), "it moves")
	require.NotContains(t, out.String(), "\x1b")
	out.Reset()
	a.lines(&watcher{}).shows(t.Context(), v)
	require.Contains(t, out.String(), "it moves")
	require.NotContains(t, out.String(), "\x1b")
}
