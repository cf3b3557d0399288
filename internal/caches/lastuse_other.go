//go:build !linux

package caches

import (
	"io/fs"
	"time"
)

// lastUse is when a file was last changed.
func lastUse(info fs.FileInfo) time.Time { return info.ModTime() }
