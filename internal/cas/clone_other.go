//go:build !linux

package cas

// clone returns false: sharing blocks is not supported on this platform.
func clone(_, _ uintptr) bool { return false }
