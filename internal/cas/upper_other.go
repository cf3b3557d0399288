//go:build !linux

package cas

import (
	"io/fs"
	"os"
)

// Overlays are Linux's.
func isWhiteout(fs.FileInfo) bool     { return false }
func isOpaque(*os.Root) (bool, error) { return false, nil }
