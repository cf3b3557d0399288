//go:build !linux

// Package overlayfs has no marks: overlays are Linux's.
package overlayfs

import (
	"io/fs"
	"os"
)

// IsWhiteout is false.
func IsWhiteout[Device int32 | uint64](fs.FileMode, Device) bool { return false }

// IsOpaque is false.
func IsOpaque(*os.File) (bool, error) { return false, nil }
