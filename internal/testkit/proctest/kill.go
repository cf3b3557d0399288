package proctest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

// KillTrees kills processes and all below them with SIGKILL, and waits until none is alive.
func KillTrees(t testing.TB, roots ...int) {
	t.Helper()
	left := proctree.KillAll(func() (found []proctree.Process) {
		for _, pid := range roots {
			if p, ok := proctree.Read(pid); ok {
				found = append(found, p)
			}
			found = append(found, proctree.Below(pid)...)
		}
		return slices.DeleteFunc(found, func(p proctree.Process) bool { return p.Zombie })
	}, proctree.KillLimit)
	require.Empty(t, left)
}
