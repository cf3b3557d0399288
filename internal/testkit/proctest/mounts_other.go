//go:build !linux

package proctest

import "testing"

// InMounts skips the test: only Linux has overlays.
func InMounts(t *testing.T) bool {
	t.Helper()
	t.Skip("there are no overlays on this system")
	return false
}
