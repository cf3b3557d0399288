//go:build !linux

package proctest

import "testing"

// InMounts skips the test: overlays are Linux's.
func InMounts(t *testing.T) bool {
	t.Helper()
	t.Skip("there are no overlays on this system")
	return false
}
