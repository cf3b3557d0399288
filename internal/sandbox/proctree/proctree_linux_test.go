package proctree

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatIsReadWhateverTheNameHolds(t *testing.T) {
	t.Parallel()
	rest := " S 1 7 8 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 3 0 12345 0 0"
	for _, name := range []string{"sh", "a) S 9 9 9", "((", "x y"} {
		p, ok := parseStat(42, []byte("42 ("+name+")"+rest))
		require.True(t, ok)
		require.Equal(t, Process{PID: 42, Name: name, Parent: 1, Group: 7, Session: 8, Threads: 3, Started: 12345}, p)
	}
	for _, broken := range []string{"", "42 (sh", "42 (sh) S 1 2", "42 (sh) S x" + rest} {
		_, ok := parseStat(42, []byte(broken))
		require.False(t, ok)
	}
}

func TestTheStartOfAProcessIsComparedWithNow(t *testing.T) {
	t.Parallel()
	before := Now()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p, ok := Read(cmd.Process.Pid)
	require.True(t, ok)
	require.GreaterOrEqual(t, p.Started, before)
	require.LessOrEqual(t, p.Started, Now())
}
