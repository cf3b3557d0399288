package spec

import (
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Backoff is the wait after the n-th failure, n counting from 1: initial,
// doubling, at most limit.
func Backoff(initial, limit textfmt.Duration, n int) textfmt.Duration {
	wait := initial
	for range n - 1 {
		if wait >= limit {
			break
		}
		wait *= 2
	}
	return min(wait, limit)
}
