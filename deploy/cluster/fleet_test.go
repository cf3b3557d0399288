//go:build system

package cluster_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheBenchmarkOfAFleetLosesNothing runs it with the smallest figures.
func TestTheBenchmarkOfAFleetLosesNothing(t *testing.T) {
	t.Parallel()
	p := begin(t, exec.Command("make", "-C", "../..", "bench-fleet", "WAITING=10", "ROOMS=8", "FILES=50", "REST=1s"))
	require.Zero(t, p.wait(), "%s", p.output)
	out := p.output.String()
	require.Regexp(t, `(?m)^\| 10 \|.*\|$`, out, "sessions that wait")
	for _, hosts := range []string{"2", "4"} {
		// All rooms were at work at once, all sessions completed, none was lost; a host was killed in the last line.
		require.Regexp(t, `(?m)^\| `+hosts+` \| 8 \| 8 \|.*\| 8 \| 0 \| - \| - \|$`, out)
		require.Regexp(t, `(?m)^\| `+hosts+` \| 8 \| \d \|.*\| 8 \| 0 \| \d \| [\d.]+ \|$`, out)
	}
	require.Regexp(t, `(?m)^\| 2 \| [\d.]+ \| [\d.]+ \| [\d.]+ \|$`, out, "the second host's rooms over files")
}
