//go:build !linux

package cas

import "os"

// clone makes dst share src's blocks. It reports false where that cannot be done.
func clone(_, _ *os.File) bool { return false }
